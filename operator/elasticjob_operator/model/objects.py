"""Access to Kubernetes objects as plain JSON, without a client library.

The functions depend on their arguments only and do not change them. None knows the meaning of an ElasticJob. Missing
parts of an object read as empty, because an API server omits empty parts.
"""

from collections.abc import Mapping
from typing import Any

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
DEFAULT_GRACE_S = 30.0
"""The API server's default for `terminationGracePeriodSeconds`."""
ORPHAN_FINALIZER = "orphan"
"""The finalizer that `kubectl delete --cascade=orphan` sets."""
NOT_RETAINED = "elasticjob.io/unkept"
"""Field of a job that is kept without its spec; it has the reason. No API server stores such a field."""
TOO_LARGE = "elasticjob.io/too-large"
"""Field of such a job if it would not be kept with any amount of free memory."""


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's metadata, or an empty mapping."""
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return the object's name, or an empty text."""
    return str(metadata(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return the object's namespace; objects without one are in `default`."""
    return str(metadata(obj).get("namespace") or "default")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the object's uid, or an empty text before it was created."""
    return str(metadata(obj).get("uid") or "")


def version_of(obj: Mapping[str, Any]) -> str:
    """Return the object's resourceVersion, which changes with every write; an empty text before it was created."""
    return str(metadata(obj).get("resourceVersion") or "")


def identity(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with only its name, uid and version."""
    known = metadata(obj)
    return {"metadata": {name: known.get(name) for name in ("name", "namespace", "uid", "resourceVersion")}}


def with_version(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the object with this resourceVersion."""
    return {**obj, "metadata": {**metadata(obj), "resourceVersion": version}}


def is_same_except_status(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two versions of an object differ at most in their status."""
    return _without_status(one) == _without_status(other)


def _without_status(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {**with_version(dict(obj), ""), "status": None}


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the object's labels."""
    return metadata(obj).get("labels") or {}


def owner_uids(obj: Mapping[str, Any]) -> frozenset[str]:
    """Return the uids of all owners."""
    return frozenset(str(owner.get("uid")) for owner in metadata(obj).get("ownerReferences") or [])


def not_retained_reason(obj: Mapping[str, Any]) -> str:
    """Return the reason why the operator does not keep the job's spec; empty if it does."""
    return str(obj.get(NOT_RETAINED) or "")


def is_too_large(obj: Mapping[str, Any]) -> bool:
    """Return whether the job's spec would not be kept with any amount of free memory."""
    return bool(obj.get(TOO_LARGE))


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Return whether the object's deletion was requested and is not complete."""
    return bool(metadata(obj).get("deletionTimestamp"))


def matches(obj: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """Return whether the object has every label of `selector`."""
    return selector.items() <= dict(labels_of(obj)).items()


def pod_phase(pod: Mapping[str, Any]) -> str:
    """Return `status.phase`; Pending if no component has set it."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` after a JSON merge patch (RFC 7386): null removes, objects merge, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
