"""PURE: how many nodes a job should have now, from what was wished.

A wish between allowed sizes is rounded down: an autoscaler writes any number, and more than was asked for may
not fit the quota. Below the smallest allowed size the smallest one holds, because the job cannot run with less.
"""

from elasticjob_api.spec import JobSpec


def desired_nodes(spec: JobSpec) -> int:
    """Nodes wanted: `replicas` within minReplicas and maxReplicas, rounded to an allowed number."""
    wish = min(max(spec.replicas, spec.effective_min), spec.effective_max)
    if spec.allowed_replicas:
        return _nearest_allowed(spec, wish)
    if spec.replica_step:
        return wish - (wish - spec.effective_min) % spec.replica_step
    return wish


def _nearest_allowed(spec: JobSpec, requested: int) -> int:
    sizes = sorted(size for size in spec.allowed_replicas if spec.effective_min <= size <= spec.effective_max)
    below = [size for size in sizes if size <= requested]
    return below[-1] if below else (sizes or [requested])[0]
