"""The parts of a pod template that the local kubelet reads, with their types, so that later code can rely on them.

The parser keeps the template as a plain dictionary, because unknown fields must reach the pod unchanged. On a cluster
the API server checks the known fields; here this module does. Fields outside of the schema are not checked.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api.errors import FieldError
from elasticjob_api.template_schema import CONTAINER_SCHEMA, schema_errors

Json = Mapping[str, Any]

_ENV = {
    "name": str,
    "value": str,
    "valueFrom": {
        "fieldRef": {"fieldPath": str},
        "resourceFieldRef": {"resource": str, "containerName": str},
        "configMapKeyRef": {"name": str},
        "secretKeyRef": {"name": str},
    },
}
_CONTAINER = {
    **CONTAINER_SCHEMA,
    "image": str,
    "workingDir": str,
    "env": [_ENV],
    "envFrom": [{"configMapRef": {"name": str}, "secretRef": {"name": str}}],
    "volumeMounts": [{"name": str, "mountPath": str, "subPath": str}],
    "resources": {**CONTAINER_SCHEMA["resources"], "requests": {}},
}
_POD = {
    "volumes": [{"name": str, "emptyDir": {}, "hostPath": {"path": str}}],
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "terminationGracePeriodSeconds": int,
}


def pod_schema_errors(pod_spec: Any, path: str) -> Iterator[FieldError]:
    """Yield an error for each known part of the pod's spec with the wrong type, and for a missing name."""
    errors = list(schema_errors(pod_spec, path, _POD))
    yield from errors
    if errors:
        return
    for where, container in containers_of(pod_spec):
        if not container.get("name"):
            yield FieldError(f"{path}.{where}.name", "is required")
        if where.startswith("init") and container.get("restartPolicy"):
            yield FieldError(
                f"{path}.{where}.restartPolicy", "makes it a sidecar, which cannot run here; move it to containers"
            )


def containers_of(pod_spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield all containers of a pod with their path in its spec, init containers first."""
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(pod_spec.get(kind) or []):
            yield f"{kind}[{i}]", container
