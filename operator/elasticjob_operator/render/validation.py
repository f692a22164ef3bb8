"""Whether a template fits the operator's additions to a pod; one that uses a name of the operator is rejected.

An error in the status is better than a pod with fields from two sources.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_api.errors import FieldError
from elasticjob_api.job import ElasticJob, trainer_container
from elasticjob_operator.errors import RenderError
from elasticjob_operator.model import pod_constants
from elasticjob_operator.render.persist_mount import persist_errors

_RESERVED_ENV = "ELASTICJOB_"


def validate(job: ElasticJob) -> None:
    """Raise RenderError with every field of the template that conflicts with the operator's additions."""
    if faults := list(template_errors(job)):
        raise RenderError("; ".join(map(str, faults)))


def template_errors(job: ElasticJob) -> Iterator[FieldError]:
    """Yield an error for each field of the template that conflicts with the operator's additions."""
    path, spec = "spec.template.spec", job.spec.template["spec"]
    for kind in ("volumes", "containers", "initContainers"):
        for index, item in enumerate(spec.get(kind) or []):
            yield from _reserved(f"{path}.{kind}[{index}].name", item.get("name"))
    for index, container in enumerate(spec.get("containers") or []):
        for port_index, port in enumerate(container.get("ports") or []):
            yield from _reserved(f"{path}.containers[{index}].ports[{port_index}].name", port.get("name"))
    trainer = trainer_container(job.spec)
    yield from _trainer_errors(f"{path}.containers", trainer)
    if job.spec.keep is not None:
        yield from _keep_mount_errors(f"{path}.containers", trainer)
        yield from persist_errors(job)


def _reserved(path: str, name: Any) -> Iterator[FieldError]:
    if str(name or "").startswith(constants.RESERVED_PREFIX):
        why = f"names that begin with {constants.RESERVED_PREFIX} are reserved for the operator; rename {name}"
        yield FieldError(path, why)


def _trainer_errors(path: str, container: Mapping[str, Any]) -> Iterator[FieldError]:
    for env in container.get("env") or []:
        if str(env.get("name", "")).startswith(_RESERVED_ENV):
            why = f"variable {env['name']}: {_RESERVED_ENV}* is set by the operator; remove it"
            yield FieldError(path, why)
    for mount in container.get("volumeMounts") or []:
        mount_path = str(mount.get("mountPath", "")).rstrip("/")
        if mount_path in {pod_constants.AGENT_HOME, pod_constants.LOG_DIR, pod_constants.CREDENTIALS_DIR}:
            why = f"mountPath {mount_path} is reserved for the operator; mount {mount.get('name')} elsewhere"
            yield FieldError(path, why)


def _keep_mount_errors(path: str, container: Mapping[str, Any]) -> Iterator[FieldError]:
    # Only with Keep: jobs of earlier versions may mount something there.
    for mount in container.get("volumeMounts") or []:
        mount_path = str(mount.get("mountPath", "")).rstrip("/")
        if f"{mount_path}/".startswith(f"{pod_constants.KEEP_DIR}/"):
            why = f"mountPath {mount_path} is the volume of spec.keep; mount {mount.get('name')} elsewhere"
            yield FieldError(path, why)
