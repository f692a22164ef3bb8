"""PURE: the parts of a pod template that this project looks into have the types that Kubernetes gives them.

The CRD keeps unknown fields of a template untouched, so no API server has looked at them before a pod is made. Parts
that no code here reads are not checked here either: the API server reports their faults when the pod is made.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api.errors import FieldFault

_NAMED = {"name": str}
_TEXTS = {"*": str}
_CONTAINER = {
    "name": str,
    "command": [str],
    "args": [str],
    "env": [_NAMED],
    "volumeMounts": [{"name": str, "mountPath": str}],
    "ports": [{"name": str}],
    "resources": {"limits": {"*": (str, int)}},
    "terminationMessagePath": str,
}
SHAPE: Mapping[str, Any] = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": [_NAMED],
        "imagePullSecrets": [_NAMED],
        "terminationGracePeriodSeconds": int,
        "hostNetwork": bool,
        "dnsPolicy": str,
        "securityContext": {},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}},
    },
}
"""A list has items of one shape; `*` stands for every name of an object. A field may always be absent or null."""

_WORDS = {str: "a text", int: "a whole number", bool: "true or false"}


def shape_faults(template: Any, path: str) -> Iterator[FieldFault]:
    """Every field of a type that Kubernetes does not know there."""
    yield from _faults(template, SHAPE, path)


def _faults(value: Any, shape: Any, path: str) -> Iterator[FieldFault]:
    if isinstance(shape, Mapping):
        yield from _object_faults(value, shape, path)
    elif isinstance(shape, list):
        yield from _list_faults(value, shape[0], path)
    elif not _is(value, shape if isinstance(shape, tuple) else (shape,)):
        yield FieldFault(path, f"is {value!r:.60}; it must be {_words(shape)}")


def _object_faults(value: Any, shape: Mapping[str, Any], path: str) -> Iterator[FieldFault]:
    if not isinstance(value, Mapping):
        yield FieldFault(path, f"is {value!r:.60}; it must be an object")
        return
    for name, item in value.items():
        wanted = shape.get(name, shape.get("*"))
        if wanted is not None and item is not None:
            yield from _faults(item, wanted, f"{path}.{name}")


def _list_faults(value: Any, shape: Any, path: str) -> Iterator[FieldFault]:
    if not isinstance(value, list):
        yield FieldFault(path, f"is {value!r:.60}; it must be a list")
        return
    for index, item in enumerate(value):
        yield from _faults(item, shape, f"{path}[{index}]")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _words(shape: Any) -> str:
    return " or ".join(_WORDS[kind] for kind in (shape if isinstance(shape, tuple) else (shape,)))
