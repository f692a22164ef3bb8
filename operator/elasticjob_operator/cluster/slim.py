"""PURE: what is kept of an object that came from the API server; the rest goes before anybody holds it.

Ten thousand pods as they come are a third of a gigabyte, and nobody reads more of them than `pods.parse_pod` does.
Written by other hands than ours (kubelets, admission webhooks), so any part may be missing or odd.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

from elasticjob_api import names
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.protocol import Object, Resource
from elasticjob_operator.render import layout

_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp"),
)
_STATUS = ("phase", "reason", "message", "startTime")
_CONDITION = ("type", "status", "reason", "message")
_ANNOTATIONS = (names.ANNOTATION_AGENT_IMAGE, names.ANNOTATION_INSTALLATION)
_TOLD = frozenset({"type", "status", "phase", "reason", "name", "image", "value", *_ANNOTATIONS})
"""Fields with few different values, each of which is held once."""


def slim(resource: Resource, obj: Object) -> Object:
    """`obj` without what nobody reads; itself unchanged."""
    return _slim_pod(obj) if resource is Resource.POD else _without_history(obj)


def _without_history(obj: Object) -> Object:
    metadata = {name: value for name, value in objects.metadata(obj).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _slim_pod(pod: Object) -> Object:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept: Object = {
        "metadata": {**_part(objects.metadata(pod), _METADATA), **_annotations(pod)},
        "spec": {
            **_part(spec, ("nodeName",)),
            "containers": [_container(container) for container in spec.get("containers") or []],
        },
        "status": _part(status, _STATUS),
    }
    if conditions := status.get("conditions"):
        kept["status"]["conditions"] = [_part(condition, _CONDITION) for condition in conditions]
    for field in ("containerStatuses", "initContainerStatuses"):
        if statuses := status.get(field):
            kept["status"][field] = [_part(each, ("name", "state")) for each in statuses]
    if injectors := [c for c in spec.get("initContainers") or [] if c.get("name") == layout.INJECTOR]:
        kept["spec"]["initContainers"] = [_part(c, ("name", "image")) for c in injectors]
    return kept


def _annotations(pod: Object) -> Object:
    """Those that are read."""
    given = _part(objects.metadata(pod).get("annotations") or {}, _ANNOTATIONS)
    return {"annotations": given} if given else {}


def _container(container: Mapping[str, Any]) -> Object:
    """Its name, and the agent's prefix if it is the one with the agent."""
    env = [
        _part(each, ("name", "value")) for each in container.get("env") or [] if each.get("name") == names.ENV_PREFIX
    ]
    return {**_part(container, ("name",)), **({"env": env} if env else {})}


def _part(of: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {field: _held(field, of[field]) for field in fields if field in of}


def _held(field: str, value: Any) -> Any:
    return intern(value) if field in _TOLD and type(value) is str else value
