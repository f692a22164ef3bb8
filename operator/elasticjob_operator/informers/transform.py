"""Removal of unused fields from objects of the API server, before they are cached.

Ten thousand pods with all fields use a third of a gigabyte, and only `pod.parse_pod` reads them. A job that is too
large is reduced to its head; with all fields it may use 32 MiB. Kubelets and admission webhooks write to these objects,
so any part may be missing or invalid.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

from elasticjob_api import constants
from elasticjob_api.bootstrap import revision_word
from elasticjob_api.job_size import size_of
from elasticjob_operator.model import objects, pod_constants
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_end import FINAL_CONDITIONS, has_ended
from elasticjob_operator.model.minimal_job import minimal_job

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
"""Most characters of a field in a head; longer values are not valid."""
_STATUS_HEAD = ("phase", "startTime", "completionTime", "installation", "selector")
MAX_STATUS_BYTES, _MAX_STATUS_VALUES, _MAX_CONDITIONS = 8 << 20, 200_000, 32
"""Limits of a status that an operator writes: it has 128 KiB of text about nodes, and short numbers for workers."""
_STATUS = ("phase", "reason", "message", "startTime")
_CONDITION = ("type", "status", "reason", "message")
_ANNOTATIONS = (constants.ANNOTATION_AGENT_IMAGE, constants.ANNOTATION_INSTALLATION)
_INTERNED_FIELDS = frozenset({"type", "status", "phase", "reason", "name", "image", "value", *_ANNOTATIONS})
"""Fields with few different values, which share their memory."""


def strip(resource: Resource, obj: Object) -> Object:
    """Return `obj` without unused fields; `obj` itself is not changed."""
    return _strip_pod(obj) if resource is Resource.POD else _strip_job(obj)


def head(job: Object, reason: str) -> Object:
    """Return the identity, the manager and the status of a stripped job, with the reason why the rest is left out."""
    spec = job.get("spec") if isinstance(job.get("spec"), dict) else {}
    retained = {name: value for name, value in (spec or {}).items() if name in _HEAD and _is_short(value)}
    metadata = {name: value for name, value in objects.metadata(job).items() if name != "annotations"}
    return {**job, "metadata": metadata, "spec": retained, objects.NOT_RETAINED: reason}


def _is_short(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_TEXT)


def _strip_job(job: Object) -> Object:
    metadata = objects.metadata(job)
    retained = _pick(metadata, _JOB_METADATA)
    if restart := str((metadata.get("annotations") or {}).get(constants.ANNOTATION_RESTART) or ""):
        retained["annotations"] = {constants.ANNOTATION_RESTART: restart}
    if objects.ORPHAN_FINALIZER in (metadata.get("finalizers") or []):
        retained["finalizers"] = [objects.ORPHAN_FINALIZER]
    stripped = {**_pick(job, ("apiVersion", "kind", "spec", "status")), "metadata": retained}
    if has_ended(stripped):
        return minimal_job(stripped)
    too_large = size_of(job.get("spec")).fault
    return {**head(stripped, too_large), objects.TOO_LARGE: True} if too_large else stripped


def status_memory(job: Object) -> int:
    """Return the bytes of memory that the status uses; counting ends above `MAX_STATUS_BYTES`."""
    return size_of(job.get("status"), most_values=_MAX_STATUS_VALUES, most_bytes=MAX_STATUS_BYTES).memory


def with_minimal_status(job: Object) -> Object:
    """Return the job with a minimal status: its end and its installation; for a status that no operator wrote."""
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
    retained: Object = {
        "metadata": {**_pick(objects.metadata(pod), _METADATA), **_annotations(pod)},
        "spec": {
            **_pick(spec, ("nodeName",)),
            "containers": [_container(container) for container in spec.get("containers") or []],
        },
        "status": _pick(status, _STATUS),
    }
    if conditions := status.get("conditions"):
        retained["status"]["conditions"] = [_pick(condition, _CONDITION) for condition in conditions]
    for field in ("containerStatuses", "initContainerStatuses"):
        if statuses := status.get(field):
            retained["status"][field] = [_pick(each, ("name", "state")) for each in statuses]
    if injectors := [c for c in spec.get("initContainers") or [] if c.get("name") == pod_constants.INIT_CONTAINER]:
        retained["spec"]["initContainers"] = [_pick(c, ("name", "image")) for c in injectors]
    return retained


def _annotations(pod: Object) -> Object:
    """Return the annotations that the operator reads."""
    given = _pick(objects.metadata(pod).get("annotations") or {}, _ANNOTATIONS)
    return {"annotations": given} if given else {}


def _container(container: Mapping[str, Any]) -> Object:
    """Return the name of a container, and the agent's prefix and the revision of its spec if it has them."""
    given = container.get("env") or []
    env = [_pick(each, ("name", "value")) for each in given if each.get("name") == constants.ENV_PREFIX]
    env += [_spec_revision(each) for each in given if each.get("name") == constants.ENV_SPEC]
    return {**_pick(container, ("name",)), **({"env": env} if env else {})}


def _spec_revision(variable: Mapping[str, Any]) -> Object:
    """Return the variable with the revision alone, which many pods share."""
    revision = revision_word(str(variable.get("value") or ""))
    return _pick({"name": constants.ENV_SPEC, "value": revision}, ("name", "value"))


def _pick(of: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {field: _intern(field, of[field]) for field in fields if field in of}


def _intern(field: str, value: Any) -> Any:
    return intern(value) if field in _INTERNED_FIELDS and type(value) is str else value
