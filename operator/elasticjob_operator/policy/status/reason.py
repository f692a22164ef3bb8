"""`status.reason` and `status.message`: why a job does not run as requested, for `kubectl get`.

Both are empty for a healthy job. Programs should read the conditions instead.
"""

from collections.abc import Iterable

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.status import Condition
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import node_count_text
from elasticjob_operator.policy.lifecycle.unknown_fields import WAITING
from elasticjob_operator.policy.status.conditions import STARTING, SUSPENDING
from elasticjob_operator.policy.status.keep import PERSIST_UNREADABLE, restoring
from elasticjob_operator.policy.status.pending_reason import first_pending_reason

RESTORING_STEP = "RestoringStep"
MESSAGE_LIMIT = 1024

_REASON_PRIORITY = (ConditionType.FAILED, ConditionType.COMPLETE, ConditionType.RENDEZVOUS_UNAVAILABLE)


def reason_and_message(snapshot: JobSnapshot, status: Iterable[Condition]) -> tuple[str, str]:
    """Return the reason and the message for these conditions."""
    by_type = {condition.type: condition for condition in status}
    reason, message = _reason_and_message(snapshot, by_type)
    return reason, message[:MESSAGE_LIMIT]


def _reason_and_message(snapshot: JobSnapshot, by_type: dict[str, Condition]) -> tuple[str, str]:
    for name in _REASON_PRIORITY:
        if _is_true(by_type, name):
            return _from_condition(by_type[name])
    suspended = by_type.get(ConditionType.SUSPENDED)
    if suspended is not None and (suspended.status == "True" or suspended.reason == SUSPENDING):
        return ("", "") if suspended.status == "True" else (suspended.reason, suspended.message)
    if _is_true(by_type, ConditionType.STALLED):
        return ConditionType.STALLED, by_type[ConditionType.STALLED].message
    if _is_true(by_type, ConditionType.AGENTS_UNREACHABLE):
        return ConditionType.AGENTS_UNREACHABLE, by_type[ConditionType.AGENTS_UNREACHABLE].message
    if not _is_true(by_type, ConditionType.RUNNING):
        return _from_unknown_fields(by_type, only=WAITING) or _from_waiting(snapshot, by_type)
    return _from_running(snapshot, by_type)


def _from_running(snapshot: JobSnapshot, by_type: dict[str, Condition]) -> tuple[str, str]:
    """Return the reason while a round is active: no worker runs until its step is there, so a restore comes first."""
    keep = _from_keep(by_type)
    if keep[0] != PERSIST_UNREADABLE and (waits := restoring(snapshot)):
        return RESTORING_STEP, waits
    degraded = _from_degraded(snapshot, by_type)
    return degraded if any(degraded) else _from_unknown_fields(by_type) or keep


def _from_keep(by_type: dict[str, Condition]) -> tuple[str, str]:
    """Return why steps are kept less safely than requested; empty texts if they are not."""
    found = by_type.get(ConditionType.KEEP_DEGRADED)
    return (found.reason, found.message) if found is not None and found.status == "True" else ("", "")


def _from_unknown_fields(by_type: dict[str, Condition], *, only: str = "") -> tuple[str, str] | None:
    found = by_type.get(ConditionType.UNKNOWN_FIELDS)
    if found is None or found.status != "True" or only not in {"", found.reason}:
        return None
    return ConditionType.UNKNOWN_FIELDS, found.message


def _is_true(by_type: dict[str, Condition], name: ConditionType) -> bool:
    return name in by_type and by_type[name].status == "True"


def _from_condition(condition: Condition) -> tuple[str, str]:
    if condition.type == ConditionType.COMPLETE:
        return "", ""
    if condition.type == ConditionType.RENDEZVOUS_UNAVAILABLE:
        return ConditionType.RENDEZVOUS_UNAVAILABLE, condition.message
    return condition.reason, condition.message


def _from_waiting(snapshot: JobSnapshot, by_type: dict[str, Condition]) -> tuple[str, str]:
    """Return the reason while no round is active: the problem of a pod comes before the cause of the round."""
    if (pending := first_pending_reason(snapshot)) is not None:
        return pending.reason, pending.message
    if (keep := _from_keep(by_type))[0] == PERSIST_UNREADABLE:
        return keep
    state, running = snapshot.view.state, by_type.get(ConditionType.RUNNING)
    message = running.message if running else ""
    if running is not None and running.status == "Unknown":
        return running.reason, message
    if state is None or state.cause in STARTING:
        return "", message
    if below := _below_min(snapshot):
        return FailedReason.BELOW_MIN, f"{below}; {message}" if message else below
    return state.cause.value, message


def _below_min(snapshot: JobSnapshot) -> str:
    """Return a message if a job that has run has too few nodes now; it waits as long as its deadlines allow."""
    lowest, joined = snapshot.job.spec.effective_min, len(snapshot.joined_slots)
    return f"{joined} of at least {node_count_text(lowest)} have joined" if joined < lowest else ""


def _from_degraded(snapshot: JobSnapshot, by_type: dict[str, Condition]) -> tuple[str, str]:
    if not _is_true(by_type, ConditionType.DEGRADED):
        return "", ""
    if (pending := first_pending_reason(snapshot)) is not None:
        return pending.reason, pending.message
    degraded = by_type[ConditionType.DEGRADED]
    return degraded.reason, degraded.message
