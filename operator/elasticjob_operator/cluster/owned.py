"""Checks before an apply: only an object of the same owner may be applied over an existing one.

A user's Service or PodDisruptionBudget may have the name of a job. Server-side apply would merge our fields into it
unless they conflict.
"""

from collections.abc import Mapping
from typing import Any

from elasticjob_operator.errors import Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource


def bind_to_existing(resource: Resource, body: Object, found: Mapping[str, Any]) -> Object:
    """Return `body` with the uid of the existing object, so that it is applied to no other one.

    Owners are compared by group, kind and name. So a new job takes over the object of a deleted job of its name, which
    remains until it is collected. The garbage collector spares an object with an existing owner.

    Raises:
        Conflict: the existing object has none of the owners of `body`.
    """
    if not _owners(body) & _owners(found):
        path = f"{objects.namespace_of(found)}/{objects.name_of(found)}"
        advice = "delete or rename it, or rename the job"
        raise Conflict(f"applying {resource.value} {path}: {objects.name_of(found)} has another owner: {advice}")
    return {**body, "metadata": {**objects.metadata(body), "uid": objects.uid_of(found)}}


def _owners(obj: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    """Return group, kind and name of each owner."""
    # Other groups define an ElasticJob, too. The version may change.
    references = objects.metadata(obj).get("ownerReferences") or []
    return frozenset((_group(owner), str(owner.get("kind")), str(owner.get("name"))) for owner in references)


def _group(owner: Mapping[str, Any]) -> str:
    return str(owner.get("apiVersion")).rpartition("/")[0]


def is_applied(body: Object, found: Mapping[str, Any], manager: str) -> bool:
    """Return whether an apply would change nothing: `found` has all of `body`, and `manager` applied no other field."""
    return _has(found, body) and _fields_of(found, manager) == {f"f:{name}" for name in body.get("spec") or {}}


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and _has(found[name], value) for name, value in wanted.items())
    return bool(found == wanted)


def _fields_of(found: Mapping[str, Any], manager: str) -> set[str] | None:
    """Return the fields of the spec that this manager has applied; None if it has applied nothing."""
    for entry in objects.metadata(found).get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            return set((entry.get("fieldsV1") or {}).get("f:spec") or {}) - {"."}
    return None
