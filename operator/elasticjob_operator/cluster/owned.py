"""PURE: which object may be applied over one that is there: only one of the same owner.

A user's Service or PodDisruptionBudget may have the name of a job. Server-side apply would merge ours into it wherever
both do not contradict each other.
"""

from collections.abc import Mapping
from typing import Any

from elasticjob_operator.errors import Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource


def over(resource: Resource, body: Object, found: Mapping[str, Any]) -> Object:
    """`body`, to be applied to this very object alone; Conflict if none of its owners has the object.

    An owner is known by its group, kind and name. A deleted job's object stays until it is collected, and a new job of
    that name takes it over. The garbage collector spares an object whose owner exists.
    """
    if not _owners(body) & _owners(found):
        place = f"{objects.namespace_of(found)}/{objects.name_of(found)}"
        advice = "delete or rename it, or name the job otherwise"
        raise Conflict(f"applying {resource.value} {place}: {objects.name_of(found)} is somebody else's: {advice}")
    return {**body, "metadata": {**objects.metadata(body), "uid": objects.uid_of(found)}}


def _owners(obj: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    """Return group, kind and name of each: other groups have an ElasticJob, too. The version may change."""
    references = objects.metadata(obj).get("ownerReferences") or []
    return frozenset((_group(owner), str(owner.get("kind")), str(owner.get("name"))) for owner in references)


def _group(owner: Mapping[str, Any]) -> str:
    return str(owner.get("apiVersion")).rpartition("/")[0]


def is_applied(body: Object, found: Mapping[str, Any], manager: str) -> bool:
    """Applying changes nothing: the object has all of `body`, and `manager` has applied nothing else of its spec."""
    return _has(found, body) and _fields_of(found, manager) == {f"f:{name}" for name in body.get("spec") or {}}


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and _has(found[name], value) for name, value in wanted.items())
    return bool(found == wanted)


def _fields_of(found: Mapping[str, Any], manager: str) -> set[str] | None:
    """Names of the fields of its spec that this manager has applied; None if it has applied nothing."""
    for entry in objects.metadata(found).get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            return set((entry.get("fieldsV1") or {}).get("f:spec") or {}) - {"."}
    return None
