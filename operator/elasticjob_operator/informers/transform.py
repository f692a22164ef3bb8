"""PURE: what is kept of an object that came from the API server; the rest goes before anybody holds it.

Ten thousand pods as they come are a third of a gigabyte, and nobody reads more of them than `pods.parse_pod` does.
Of a job too large to be one only the head is kept: as it comes it may take 32 MiB.
Written by other hands than ours (kubelets, admission webhooks), so any part may be missing or odd.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

from elasticjob_api import constants
from elasticjob_api.job_size import size_of
from elasticjob_operator.model import objects, pod_constants
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.finished_job import FINAL_CONDITIONS, has_ended, minimal_job

_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp"),
)
_JOB_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp"),
)
_HEAD = frozenset({"managedBy", "nprocPerNode"})
_MAX_TEXT = 300
"""Characters of one of these, at most: longer ones say nothing."""
_STATUS_HEAD = ("phase", "startTime", "completionTime", "installation", "selector")
MAX_STATUS_BYTES, _MAX_STATUS_VALUES, _MAX_CONDITIONS = 8 << 20, 200_000, 32
"""Bytes of memory, and values: an operator writes 128 KiB of text about the nodes, and numbers of workers are short."""
_STATUS = ("phase", "reason", "message", "startTime")
_CONDITION = ("type", "status", "reason", "message")
_ANNOTATIONS = (constants.ANNOTATION_AGENT_IMAGE, constants.ANNOTATION_INSTALLATION)
_INTERNED_FIELDS = frozenset({"type", "status", "phase", "reason", "name", "image", "value", *_ANNOTATIONS})
"""Fields with few different values, each of which is held once."""


def strip(resource: Resource, obj: Object) -> Object:
    """`obj` without what nobody reads; itself unchanged."""
    return _strip_pod(obj) if resource is Resource.POD else _strip_job(obj)


def head(job: Object, why: str) -> Object:
    """Of a job that was cut down, what tells whose it is, and what was said of it; `why` there is no more of it."""
    spec = job.get("spec") if isinstance(job.get("spec"), dict) else {}
    kept = {name: value for name, value in (spec or {}).items() if name in _HEAD and _is_short(value)}
    metadata = {name: value for name, value in objects.metadata(job).items() if name != "annotations"}
    return {**job, "metadata": metadata, "spec": kept, objects.NOT_RETAINED: why}


def _is_short(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_TEXT)


def _strip_job(job: Object) -> Object:
    metadata = objects.metadata(job)
    kept = _pick(metadata, _JOB_METADATA)
    if restart := str((metadata.get("annotations") or {}).get(constants.ANNOTATION_RESTART) or ""):
        kept["annotations"] = {constants.ANNOTATION_RESTART: restart}
    if objects.ORPHAN_FINALIZER in (metadata.get("finalizers") or []):
        kept["finalizers"] = [objects.ORPHAN_FINALIZER]
    slimmed = {**_pick(job, ("apiVersion", "kind", "spec", "status")), "metadata": kept}
    if has_ended(slimmed):
        return minimal_job(slimmed)
    too_large = size_of(job.get("spec")).fault
    return {**head(slimmed, too_large), objects.TOO_LARGE: True} if too_large else slimmed


def status_memory(job: Object) -> int:
    """Bytes; of a status that no operator writes, only that it is such a one."""
    return size_of(job.get("status"), most_values=_MAX_STATUS_VALUES, most_bytes=MAX_STATUS_BYTES).memory


def with_minimal_status(job: Object) -> Object:
    """`job`; of its status, which no operator writes, only whether the job has ended, and whose it is."""
    status = job.get("status")
    if not isinstance(status, dict):
        return {**job, "status": {}}
    given = status.get("conditions")
    found = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    found.sort(key=lambda each: each.get("type") not in FINAL_CONDITIONS)
    conditions = [_pick_short(each, _CONDITION[:3]) for each in found[:_MAX_CONDITIONS]]
    return {**job, "status": {**_pick_short(status, _STATUS_HEAD), "conditions": conditions}}


def _pick_short(of: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {name: value for name, value in _pick(of, fields).items() if _is_short(value)}


def _strip_pod(pod: Object) -> Object:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept: Object = {
        "metadata": {**_pick(objects.metadata(pod), _METADATA), **_annotations(pod)},
        "spec": {
            **_pick(spec, ("nodeName",)),
            "containers": [_container(container) for container in spec.get("containers") or []],
        },
        "status": _pick(status, _STATUS),
    }
    if conditions := status.get("conditions"):
        kept["status"]["conditions"] = [_pick(condition, _CONDITION) for condition in conditions]
    for field in ("containerStatuses", "initContainerStatuses"):
        if statuses := status.get(field):
            kept["status"][field] = [_pick(each, ("name", "state")) for each in statuses]
    if injectors := [c for c in spec.get("initContainers") or [] if c.get("name") == pod_constants.INIT_CONTAINER]:
        kept["spec"]["initContainers"] = [_pick(c, ("name", "image")) for c in injectors]
    return kept


def _annotations(pod: Object) -> Object:
    """Those that are read."""
    given = _pick(objects.metadata(pod).get("annotations") or {}, _ANNOTATIONS)
    return {"annotations": given} if given else {}


def _container(container: Mapping[str, Any]) -> Object:
    """Its name, and the agent's prefix if it is the one with the agent."""
    env = [
        _pick(each, ("name", "value"))
        for each in container.get("env") or []
        if each.get("name") == constants.ENV_PREFIX
    ]
    return {**_pick(container, ("name",)), **({"env": env} if env else {})}


def _pick(of: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {field: _intern(field, of[field]) for field in fields if field in of}


def _intern(field: str, value: Any) -> Any:
    return intern(value) if field in _INTERNED_FIELDS and type(value) is str else value
