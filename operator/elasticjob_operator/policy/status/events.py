"""The events of a change from one status to the next; each change is reported once, whichever process observed it."""

from collections.abc import Iterator

from elasticjob_api.constants import ConditionType, EventReason
from elasticjob_api.failure_text import NODE_LOST
from elasticjob_api.status import Condition, JobStatus, KeepStatus, LastFailure, RoundStatus
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.text import node_count_text, pluralize
from elasticjob_operator.policy.status.conditions import is_true
from elasticjob_operator.policy.status.keep import NOT_RUNNING, OF_PERSISTING, PERSIST_UNREADABLE

_EACH_IS_NEWS = frozenset({PERSIST_UNREADABLE, NOT_RUNNING})
"""Reasons of the condition KeepDegraded with which each new error of persisting has an event."""


def events(before: JobStatus, after: JobStatus) -> tuple[Event, ...]:
    """Return the events of the change, in the order of a job's history."""
    sources = (_acceptance_events, _scaling_events, _trouble_events, _round_events, _end_events)
    return tuple(event for source in sources for event in source(before, after))


def _became_true(before: JobStatus, after: JobStatus, name: ConditionType) -> Condition | None:
    """Return the condition if it has become True."""
    if is_true(before.conditions, name) or not is_true(after.conditions, name):
        return None
    return next(condition for condition in after.conditions if condition.type == name)


def _acceptance_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    accepted = {c.type: c for c in after.conditions}.get(ConditionType.ACCEPTED)
    refused_before = any(c.type == ConditionType.ACCEPTED and c == accepted for c in before.conditions)
    if accepted is not None and accepted.status == "False" and not refused_before:
        yield Event(EventReason.INVALID_SPEC, accepted.message, warning=True)
    unknown = _became_true(before, after, ConditionType.UNKNOWN_FIELDS)
    if unknown is not None:
        yield Event(EventReason.UNKNOWN_FIELDS, unknown.message, warning=True)
    if not _was_evaluated(before) and _was_evaluated(after) and not after.completion_time:
        yield Event(EventReason.CREATED, _creation_message(after))
    if _became_true(before, after, ConditionType.SUSPENDED) and _was_evaluated(before):
        yield Event(EventReason.SUSPENDED, "the workers have stopped and the pods are deleted")
    runs_again = after.start_time and not after.completion_time  # a suspended job may also end
    if is_true(before.conditions, ConditionType.SUSPENDED) and runs_again:
        yield Event(EventReason.RESUMED, f"the job resumes with {node_count_text(after.desired_replicas)}")


def _was_evaluated(status: JobStatus) -> bool:
    """Return whether the job has been reconciled before: conditions are never removed."""
    return any(condition.type == ConditionType.RUNNING for condition in status.conditions)


def _creation_message(status: JobStatus) -> str:
    if not status.start_time and is_true(status.conditions, ConditionType.UNKNOWN_FIELDS):
        return "the job was created, but waits: its spec has fields that this version of the operator does not know"
    if is_true(status.conditions, ConditionType.SUSPENDED):
        return "the job was created suspended"
    return f"the job starts with {node_count_text(status.desired_replicas)}"


def _scaling_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    was, now = before.desired_replicas, after.desired_replicas
    if was and now != was:
        reason = EventReason.SCALED_UP if now > was else EventReason.SCALED_DOWN
        yield Event(reason, f"from {was} to {node_count_text(now)}")


def _trouble_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    if unavailable := _became_true(before, after, ConditionType.RENDEZVOUS_UNAVAILABLE):
        yield Event(ConditionType.RENDEZVOUS_UNAVAILABLE, unavailable.message, warning=True)
    if unreachable := _became_true(before, after, ConditionType.AGENTS_UNREACHABLE):
        yield Event(ConditionType.AGENTS_UNREACHABLE, unreachable.message, warning=True)
    if stalled := _became_true(before, after, ConditionType.STALLED):
        yield Event(EventReason.STALLED, stalled.message, warning=True)
    yield from _keep_events(before, after)
    failure = after.last_failure
    if failure is not None and failure != before.last_failure and failure.reason != NODE_LOST:
        yield Event(EventReason.WORKER_FAILED, worker_failed_text(failure), warning=True)
    if after.restarts > before.restarts:
        yield Event(EventReason.RESTARTING, f"all workers restart (restart {after.restarts} of the job)", warning=True)
    if after.node_losses > before.node_losses:
        loss = failure.message if failure is not None and failure.reason == NODE_LOST else "a node was lost"
        count = f"node loss {after.node_losses} of the job, not counted against maxRestarts"
        yield Event(EventReason.NODE_LOST, f"{loss} ({count})", warning=True)


def _keep_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    was, now = before.keep or KeepStatus(), after.keep or KeepStatus()
    # While a job runs, each step that cannot be written has a text of its own. A wait or a lost last step is news.
    each_is_news = any(c.type == ConditionType.KEEP_DEGRADED and c.reason in _EACH_IS_NEWS for c in after.conditions)
    if now.persist_error and (not was.persist_error or (each_is_news and now.persist_error != was.persist_error)):
        yield Event(EventReason.PERSIST_FAILED, now.persist_error, warning=True)
    degraded = _memory_trouble(after)
    if degraded is not None and _memory_trouble(before) is None:
        too_small = degraded.reason == EventReason.KEEP_TOO_SMALL
        reason = EventReason.KEEP_TOO_SMALL if too_small else EventReason.KEEP_DEGRADED
        yield Event(reason, degraded.message, warning=True)


def _memory_trouble(status: JobStatus) -> Condition | None:
    """Return the condition KeepDegraded if it is True, and not for the disk alone."""
    conditions = [c for c in status.conditions if c.type == ConditionType.KEEP_DEGRADED and c.status == "True"]
    return next((c for c in conditions if c.reason not in OF_PERSISTING), None)


def worker_failed_text(failure: LastFailure) -> str:
    """Return the message of the event about a failed worker."""
    how = f"was killed by {failure.signal}" if failure.signal else f"exited with {failure.exit_code}"
    why = f": {failure.message}" if failure.message else ""
    return f"rank {failure.rank} on {failure.pod_name} {how} in round {failure.round}{why}"


def _round_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    if _became_true(before, after, ConditionType.QUORUM_REACHED) and not before.last_rendezvous_time:
        yield Event(EventReason.QUORUM_REACHED, "enough nodes joined")
    if after.ready_replicas and after.last_rendezvous_time != before.last_rendezvous_time:
        number = after.rendezvous_round
        round_ = next((each for each in after.rounds if each.round == number), None)
        size = f"{node_count_text(after.ready_replicas)}, {pluralize(after.world_size, 'worker')}"
        restored = _restored_text(round_) if round_ is not None and after.keep is not None else ""
        why = f"; cause: {round_.message}" if round_ is not None and round_.message else ""
        yield Event(EventReason.RENDEZVOUS_COMPLETED, f"round {number}: {size}{restored}{why}")


def _restored_text(round_: RoundStatus) -> str:
    """Return the kept step of a round, for an event; empty for a first round, which mostly has none."""
    if round_.restored_step is not None:
        return f"; kept step {round_.restored_step} is to be restored"  # its nodes may still fetch it
    return "; no kept step was restored" if round_.round > 1 else ""


def _end_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    if complete := _became_true(before, after, ConditionType.COMPLETE):
        yield Event(EventReason.SUCCEEDED, complete.message)
    if failed := _became_true(before, after, ConditionType.FAILED):
        yield Event(EventReason.FAILED, f"{failed.reason}: {failed.message}", warning=True)
