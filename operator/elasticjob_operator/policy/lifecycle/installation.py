"""PURE: which installation of the operator a job belongs to; every other one leaves it alone.

`status.installation` names it. The field is in the status because manifests do not copy it and the operator may
write nothing else of a job; a field manager of its own keeps it apart from the rest of the status, which is rewritten.
A status counts only for the object that it was written for: a restored job has a new uid, and no owner.
"""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Any

from elasticjob_api import constants
from elasticjob_api.constants import EventReason
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import Pod

FIELD = "installation"


class Ownership(Enum):
    """What this installation may do with a job."""

    OWNED = "ours"
    UNCLAIMED = "unclaimed"  # it may become ours
    FOREIGN = "another's"  # nothing at all


class LeftAloneReason(StrEnum):
    """Why this installation does nothing for a job."""

    OWNED_BY_ANOTHER = EventReason.OWNED_BY_ANOTHER.value
    MANAGED_BY_ANOTHER = "ManagedByAnother"  # spec.managedBy names another controller


def is_managed(obj: Object, manager_name: str = "") -> bool:
    """`spec.managedBy` names the operator or, by `manager_name`, this installation of it."""
    managers = {None, "", constants.MANAGED_BY, manager_name or constants.MANAGED_BY}
    return (obj.get("spec") or {}).get("managedBy") in managers


def installation_of(obj: Object) -> str:
    """The installation that the job's status names; empty where none does."""
    status: dict[str, Any] = obj.get("status") or {}
    selector = status.get("selector") or ""
    of_this_object = selector in {"", f"{constants.LABEL_JOB_UID}={objects.uid_of(obj)}"}
    return str(status.get(FIELD) or "") if of_this_object else ""


def is_foreign(pod: Pod, *, installation: str, prefix: str) -> bool:
    """The pod was made by another installation, or uses other keys than those below `prefix`."""
    if not installation:
        return False
    return pod.installation not in {"", installation} or pod.prefix not in {"", prefix}


def ownership(obj: Object, pods: Iterable[Pod], *, installation: str, prefix: str, claimed: bool) -> Ownership:
    """What the installation may do, whose keys of this job begin with `prefix`; `claimed`: it has written its name.

    A job that no installation has claimed may be one of an operator that knew no such field. Then its pods tell.
    """
    named = installation_of(obj)
    if not installation or named == installation or (claimed and not named):
        return Ownership.OWNED
    if named or any(is_foreign(pod, installation=installation, prefix=prefix) for pod in pods):
        return Ownership.FOREIGN
    return Ownership.UNCLAIMED


def is_orphaning(obj: Object) -> bool:
    """The job is being deleted, and its pods are to stay."""
    return objects.is_terminating(obj) and objects.ORPHAN_FINALIZER in (objects.metadata(obj).get("finalizers") or [])


def owned_by_another(obj: Object, installation: str) -> Event:
    """The event of a job that is left alone."""
    named = installation_of(obj)
    whose = f"it belongs to installation {named}" if named else "its pods were made by another installation"
    message = (
        f"installation {installation} leaves the job alone: {whose}; the page Operations has the steps to hand it over"
    )
    return Event(EventReason.OWNED_BY_ANOTHER, message, warning=True)
