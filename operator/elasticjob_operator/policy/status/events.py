"""PURE: what is worth an event, from two statuses: before and after. So each change is told once, whoever saw it."""

from collections.abc import Iterator

from elasticjob_api.constants import ConditionType, EventReason
from elasticjob_api.status import Condition, JobStatus
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.text import node_count_text, pluralize
from elasticjob_operator.policy.status import node_loss
from elasticjob_operator.policy.status.conditions import is_true


def events(before: JobStatus, after: JobStatus) -> tuple[Event, ...]:
    """The events that tell the way from one status to the next, in the order of the story."""
    story = (_acceptance_events, _scaling_events, _trouble_events, _round_events, _end_events)
    return tuple(event for chapter in story for event in chapter(before, after))


def _became_true(before: JobStatus, after: JobStatus, name: ConditionType) -> Condition | None:
    """The condition, if it has become True."""
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
        yield Event(EventReason.CREATED, _start_events(after))
    if _became_true(before, after, ConditionType.SUSPENDED) and _was_evaluated(before):
        yield Event(EventReason.SUSPENDED, "the workers were stopped and the pods are deleted")
    runs_again = after.start_time and not after.completion_time  # a job may also end out of its suspension
    if is_true(before.conditions, ConditionType.SUSPENDED) and runs_again:
        yield Event(EventReason.RESUMED, f"the job goes on with {node_count_text(after.desired_replicas)}")


def _was_evaluated(status: JobStatus) -> bool:
    """The job was taken up once: no condition of it ever goes again."""
    return any(condition.type == ConditionType.RUNNING for condition in status.conditions)


def _start_events(status: JobStatus) -> str:
    if not status.start_time and is_true(status.conditions, ConditionType.UNKNOWN_FIELDS):
        return "the job was created and has not begun"
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
    failure = after.last_failure
    if failure is not None and failure != before.last_failure and failure.reason != node_loss.REASON:
        how = f"was killed by {failure.signal}" if failure.signal else f"exited with {failure.exit_code}"
        said = f": {failure.message}" if failure.message else ""
        message = f"rank {failure.rank} on {failure.pod_name} {how} in round {failure.round}{said}"
        yield Event(EventReason.WORKER_FAILED, message, warning=True)
    if after.restarts > before.restarts:
        yield Event(EventReason.RESTARTING, f"restart {after.restarts} of the workers", warning=True)
    if after.node_losses > before.node_losses:
        said = f": {failure.message}" if failure is not None and failure.reason == node_loss.REASON else ""
        message = f"loss {after.node_losses} of nodes, not charged{said}"
        yield Event(EventReason.NODE_LOST, message, warning=True)


def _round_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    if _became_true(before, after, ConditionType.QUORUM_REACHED) and not before.last_rendezvous_time:
        yield Event(EventReason.QUORUM_REACHED, "enough nodes joined")
    if after.ready_replicas and after.last_rendezvous_time != before.last_rendezvous_time:
        running = next((c.message for c in after.conditions if c.type == ConditionType.RUNNING), "")
        _, _, why = running.partition(", after: ")
        size = f"{node_count_text(after.ready_replicas)}, {pluralize(after.world_size, 'worker')}"
        yield Event(
            EventReason.RENDEZVOUS_COMPLETED,
            f"round {after.rendezvous_round}: {size}" + (f"; after: {why}" if why else ""),
        )


def _end_events(before: JobStatus, after: JobStatus) -> Iterator[Event]:
    if complete := _became_true(before, after, ConditionType.COMPLETE):
        yield Event(EventReason.SUCCEEDED, complete.message)
    if failed := _became_true(before, after, ConditionType.FAILED):
        yield Event(EventReason.FAILED, f"{failed.reason}: {failed.message}", warning=True)
