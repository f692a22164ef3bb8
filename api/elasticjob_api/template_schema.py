"""The fields of a pod template that this project reads, with the types that Kubernetes gives them.

The CRD preserves unknown fields of a template, so no API server has checked them before a pod is created. Fields that
this project does not read are not checked here: the API server reports their faults when the pod is created.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api.errors import FieldError

_NAMED = {"name": str}
_TEXTS = {"*": str}
CONTAINER_SCHEMA: Mapping[str, Any] = {
    "name": str,
    "command": [str],
    "args": [str],
    "env": [_NAMED],
    "volumeMounts": [{"name": str, "mountPath": str}],
    "ports": [{"name": str}],
    "resources": {"limits": {"*": (str, int)}},
    "terminationMessagePath": str,
}
POD_TEMPLATE_SCHEMA: Mapping[str, Any] = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec": {
        "containers": [CONTAINER_SCHEMA],
        "initContainers": [CONTAINER_SCHEMA],
        "volumes": [_NAMED],
        "imagePullSecrets": [_NAMED],
        "terminationGracePeriodSeconds": int,
        "hostNetwork": bool,
        "dnsPolicy": str,
        "securityContext": {},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}},
    },
}
"""A list has items of one shape; `*` matches every name of an object. A field may always be absent or null."""

_WORDS = {str: "a text in quotes", int: "a whole number", bool: "true or false"}


def schema_errors(value: Any, path: str, schema: Any = POD_TEMPLATE_SCHEMA) -> Iterator[FieldError]:
    """Return an error, with the cure, for each field whose type is not that of the schema."""
    if isinstance(schema, Mapping):
        yield from _object_errors(value, schema, path)
    elif isinstance(schema, list):
        yield from _list_errors(value, schema[0], path)
    elif not _is_instance(value, schema if isinstance(schema, tuple) else (schema,)):
        yield FieldError(path, f"is {value!r:.60}; it must be {_describe(schema)}")


def _object_errors(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield FieldError(path, f"is {value!r:.60}; it must be an object")
        return
    for name, item in value.items():
        wanted = schema.get(name, schema.get("*"))
        if wanted is not None and item is not None:
            yield from schema_errors(item, f"{path}.{name}", wanted)


def _list_errors(value: Any, schema: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        words = ", ".join(value.split()) if isinstance(value, str) else "..."
        yield FieldError(path, f"is {value!r:.60}; it must be a list in brackets, as [{words:.60}]")
        return
    for index, item in enumerate(value):
        yield from schema_errors(item, f"{path}[{index}]", schema)


def _is_instance(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _describe(shape: Any) -> str:
    return " or ".join(_WORDS[kind] for kind in (shape if isinstance(shape, tuple) else (shape,)))
