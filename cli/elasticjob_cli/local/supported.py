"""Which pods this machine can run: asked for a manifest before anything starts, and for every pod that comes. Pure."""

from elasticjob_api.errors import FieldError
from elasticjob_cli.local.environment import environment_faults
from elasticjob_cli.local.pod_template import Json, shape_faults
from elasticjob_cli.local.volumes import volume_faults


def pod_faults(pod_spec: Json, path: str) -> list[FieldError]:
    """Everything that stands in the way, below `path`; nothing: the pod can run here."""
    if faults := list(shape_faults(pod_spec, path)):
        return faults
    return [*volume_faults(pod_spec, path), *environment_faults(pod_spec, path)]
