"""The treatment of a job whose spec has fields that this operator version does not know: those of a newer CRD.

A job that has not started, or not resumed yet, waits: without the field it may not do what the user wants. A job that
runs continues without the field: its pods are replaced, and it can be suspended, scaled and ended like any other.
"""

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.lifecycle.pod_revisions import has_pods

WAITING, IGNORED = "Waits", "Ignored"
"""Reasons of the condition UnknownFields."""
_NAMED = 8
"""Most fields that a message names."""
_NAME_LIMIT = 100


def is_waiting(snapshot: JobSnapshot) -> bool:
    """Return whether the job may not start before its fields are known."""
    return bool(snapshot.job.unknown_fields) and not snapshot.job.spec.suspend and not _has_started(snapshot)


def _has_started(snapshot: JobSnapshot) -> bool:
    """Return whether the job has started since its creation or its last suspension."""
    return bool(snapshot.status.start_time) or has_pods(snapshot) or any(pod.is_live for pod in snapshot.pods.values())


def describe(paths: tuple[str, ...], *, waiting: bool) -> str:
    """Return the condition's message, which names the fields."""
    named = ", ".join(path[:_NAME_LIMIT] for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    effect = "the job waits: upgrade the operator, or remove the field" if waiting else "the field is ignored"
    return f"this version of the operator does not know {named}{more}, or its value; {effect}"
