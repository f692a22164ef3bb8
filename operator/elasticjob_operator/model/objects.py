"""Reading and changing Kubernetes objects as plain JSON, without any client library.

Only functions of their arguments: no function here changes what it is given, and none knows what an
ElasticJob means. Missing parts of an object read as empty, because an API server leaves empty parts out.
"""

from collections.abc import Mapping
from typing import Any

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
DEFAULT_GRACE_S = 30.0
"""What an API server fills in for `terminationGracePeriodSeconds`."""
ORPHAN_FINALIZER = "orphan"
"""Of `kubectl delete --cascade=orphan`."""
NOT_RETAINED = "elasticjob.io/unkept"
"""Field of a job of which only the head is kept: why. No API server stores such a field."""
TOO_LARGE = "elasticjob.io/too-large"
"""Field of such a job: it would not be kept whatever room there was."""


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object's metadata, or nothing."""
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    """The object's name, or an empty text."""
    return str(metadata(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The object's namespace; objects without one are in `default`."""
    return str(metadata(obj).get("namespace") or "default")


def uid_of(obj: Mapping[str, Any]) -> str:
    """The object's uid, or an empty text before it was created."""
    return str(metadata(obj).get("uid") or "")


def version_of(obj: Mapping[str, Any]) -> str:
    """The object's resourceVersion: it changes with every write; an empty text before it was created."""
    return str(metadata(obj).get("resourceVersion") or "")


def identity(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object's name, uid and version, and nothing else of it."""
    known = metadata(obj)
    return {"metadata": {name: known.get(name) for name in ("name", "namespace", "uid", "resourceVersion")}}


def with_version(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """The object with this resourceVersion."""
    return {**obj, "metadata": {**metadata(obj), "resourceVersion": version}}


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The object's labels."""
    return metadata(obj).get("labels") or {}


def owner_uids(obj: Mapping[str, Any]) -> frozenset[str]:
    """The uids of all owners."""
    return frozenset(str(owner.get("uid")) for owner in metadata(obj).get("ownerReferences") or [])


def not_retained_reason(obj: Mapping[str, Any]) -> str:
    """Why only the head of a job is here; empty if all of it is."""
    return str(obj.get(NOT_RETAINED) or "")


def is_too_large(obj: Mapping[str, Any]) -> bool:
    """Only the head of a job is here, and there will never be room for more of it."""
    return bool(obj.get(TOO_LARGE))


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Deletion was asked for and has not come to its end."""
    return bool(metadata(obj).get("deletionTimestamp"))


def matches(obj: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """The object has every label of `selector`."""
    return selector.items() <= dict(labels_of(obj)).items()


def pod_phase(pod: Mapping[str, Any]) -> str:
    """`status.phase`; a pod nobody has looked at is Pending."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` after a JSON merge patch (RFC 7386): null removes, objects merge, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
