"""The installation of the operator that a job belongs to; all other installations ignore the job.

`status.installation` names it. The field is in the status because manifests do not copy the status, and because the
operator may write nothing else of a job. It has its own field manager, because the rest of the status is rewritten. A
status counts only for the object that it was written for: a restored job has a new uid and belongs to no installation.
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
    """The relation of this installation to a job."""

    OWNED = "owned"
    UNCLAIMED = "unclaimed"  # this installation may claim it
    FOREIGN = "foreign"  # this installation writes nothing


class UnmanagedReason(StrEnum):
    """The reason why this installation ignores a job."""

    OWNED_BY_ANOTHER = EventReason.OWNED_BY_ANOTHER.value
    MANAGED_BY_ANOTHER = "ManagedByAnother"  # spec.managedBy names another controller


def is_managed(obj: Object, manager_name: str = "") -> bool:
    """Return whether `spec.managedBy` names the operator or, with `manager_name`, this installation of it."""
    managers = {None, "", constants.MANAGED_BY, manager_name or constants.MANAGED_BY}
    return (obj.get("spec") or {}).get("managedBy") in managers


def installation_of(obj: Object) -> str:
    """Return the installation that the job's status names; empty if it names none."""
    status: dict[str, Any] = obj.get("status") or {}
    selector = status.get("selector") or ""
    of_this_object = selector in {"", f"{constants.LABEL_JOB_UID}={objects.uid_of(obj)}"}
    return str(status.get(FIELD) or "") if of_this_object else ""


def is_foreign(pod: Pod, *, installation: str, prefix: str) -> bool:
    """Return whether another installation created the pod, or the pod uses keys outside `prefix`."""
    if not installation:
        return False
    return pod.installation not in {"", installation} or pod.prefix not in {"", prefix}


def ownership(obj: Object, pods: Iterable[Pod], *, installation: str, prefix: str, claimed: bool) -> Ownership:
    """Return the relation of the installation to the job.

    A job without an installation may come from an operator version without this field. Then its pods decide.

    Args:
        obj: the job.
        pods: its pods.
        installation: the id of this installation.
        prefix: the prefix of the job's keys in this installation's etcd.
        claimed: whether this installation has written its id into the job's status.
    """
    named = installation_of(obj)
    if not installation or named == installation or (claimed and not named):
        return Ownership.OWNED
    if named or any(is_foreign(pod, installation=installation, prefix=prefix) for pod in pods):
        return Ownership.FOREIGN
    return Ownership.UNCLAIMED


def is_orphaning(obj: Object) -> bool:
    """Return whether the job is being deleted without its pods."""
    return objects.is_terminating(obj) and objects.ORPHAN_FINALIZER in (objects.metadata(obj).get("finalizers") or [])


def owned_by_another(obj: Object, installation: str) -> Event:
    """Return the event for a job of another installation."""
    named = installation_of(obj)
    owner = f"it belongs to installation {named}" if named else "its pods were created by another installation"
    message = f"installation {installation} ignores this job: {owner}; docs/operations.md shows how to hand it over"
    return Event(EventReason.OWNED_BY_ANOTHER, message, warning=True)
