"""The number of nodes that a job should have now.

A requested number between two allowed sizes is rounded down: an autoscaler may write any number, and a larger size may
exceed the quota. Below the smallest allowed size the smallest applies, because the job cannot run with less.
"""

from elasticjob_api.spec import JobSpec


def desired_nodes(spec: JobSpec) -> int:
    """Return `replicas`, limited to minReplicas and maxReplicas and rounded to an allowed size."""
    requested = min(max(spec.replicas, spec.effective_min), spec.effective_max)
    if spec.allowed_replicas:
        return _nearest_allowed(spec, requested)
    if spec.replica_step:
        return requested - (requested - spec.effective_min) % spec.replica_step
    return requested


def _nearest_allowed(spec: JobSpec, requested: int) -> int:
    sizes = sorted(size for size in spec.allowed_replicas if spec.effective_min <= size <= spec.effective_max)
    below = [size for size in sizes if size <= requested]
    return below[-1] if below else (sizes or [requested])[0]
