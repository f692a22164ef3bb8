"""PURE: what becomes of a job whose spec has fields that this version does not know: those of a newer CRD.

A life of a job that has not begun waits: without the field it might not be what the user wants. A life that has begun
goes on without the field: its pods are replaced, and it can be suspended, scaled and ended as any other.
"""

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.lifecycle.pod_revisions import has_pods

WAITING, IGNORED = "Waits", "Ignored"
"""Reasons of the condition UnknownFields."""
_NAMED = 8
"""So many fields are named in a message."""
_NAME_LIMIT = 100


def is_waiting(snapshot: JobSnapshot) -> bool:
    """Return True if the job may not begin before its fields are known."""
    return bool(snapshot.job.unknown_fields) and not snapshot.job.spec.suspend and not _has_started(snapshot)


def _has_started(snapshot: JobSnapshot) -> bool:
    """Return True if this life of the job has begun; a life is from a start or a resume to a suspension or the end."""
    return bool(snapshot.status.start_time) or has_pods(snapshot) or any(pod.is_live for pod in snapshot.pods.values())


def describe(paths: tuple[str, ...], *, waiting: bool) -> str:
    """Return the sentence for the condition, which names the fields."""
    named = ", ".join(path[:_NAME_LIMIT] for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    then = "the job waits: upgrade the operator, or remove the field" if waiting else "it is ignored"
    return f"this operator does not know {named}{more}, or its value; {then}"
