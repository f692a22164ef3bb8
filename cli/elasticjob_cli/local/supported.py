"""The check whether this machine can run a pod: for a manifest before anything starts, and for each new pod."""

from elasticjob_api.errors import FieldError
from elasticjob_cli.local.environment import environment_faults
from elasticjob_cli.local.pod_template import Json, pod_schema_errors
from elasticjob_cli.local.volumes import volume_faults


def pod_faults(pod_spec: Json, path: str) -> list[FieldError]:
    """Return every fault that prevents the pod from running here, below `path`; empty if it can run."""
    if faults := list(pod_schema_errors(pod_spec, path)):
        return faults
    return [*volume_faults(pod_spec, path), *environment_faults(pod_spec, path)]
