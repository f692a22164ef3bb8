"""The shape of the parts of a pod template that the kubelet reads, so that later code can rely on it.

The parser keeps the template as a plain dictionary, because unknown fields must reach the pod unchanged. On a cluster
the API server checks the known fields; here this module does. Fields outside of the schema are not checked.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api.errors import FieldError

Json = Mapping[str, Any]

_TYPE_NAMES: dict[type, str] = {str: "a string; put it in quotes", int: "a whole number"}
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
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "workingDir": str,
    "terminationMessagePath": str,
    "env": [_ENV],
    "envFrom": [{"configMapRef": {"name": str}, "secretRef": {"name": str}}],
    "volumeMounts": [{"name": str, "mountPath": str, "subPath": str}],
    "resources": {"limits": {}, "requests": {}},
}
_POD = {
    "volumes": [{"name": str, "emptyDir": {}, "hostPath": {"path": str}}],
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "terminationGracePeriodSeconds": int,
}


def shape_faults(pod_spec: Any, path: str) -> Iterator[FieldError]:
    """Yield a fault for each known part of the pod's spec with the wrong type, and for a missing name."""
    faults = list(_faults(_POD, pod_spec, path))
    yield from faults
    if faults:
        return
    for place, container in containers_of(pod_spec):
        if not container.get("name"):
            yield FieldError(f"{path}.{place}.name", "is required")
        if place.startswith("init") and container.get("restartPolicy"):
            yield FieldError(
                f"{path}.{place}.restartPolicy", "makes it a sidecar, which cannot run here; move it to containers"
            )


def _faults(schema: Any, value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(schema, dict):
        yield from _object_faults(schema, value, path)
    elif isinstance(schema, list):
        yield from _list_faults(schema[0], value, path)
    elif not isinstance(value, schema) or isinstance(value, bool):
        yield FieldError(path, f"{value!r:.60} is not {_TYPE_NAMES[schema]}")


def _object_faults(schema: Json, value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield FieldError(path, f"{value!r:.60} is not an object")
        return
    for name, below in schema.items():
        if value.get(name) is not None:  # null means that the field is not given
            yield from _faults(below, value[name], f"{path}.{name}")


def _list_faults(schema: Any, value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        words = ", ".join(value.split()) if isinstance(value, str) else "..."
        yield FieldError(path, f"{value!r:.60} is not a list; write it in brackets, as [{words:.60}]")
        return
    for i, item in enumerate(value):
        yield from _faults(schema, item, f"{path}[{i}]")


def containers_of(pod_spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield all containers of a pod with their path in its spec, init containers first."""
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(pod_spec.get(kind) or []):
            yield f"{kind}[{i}]", container
