"""The reason why pods do not run, as a reason and a message, which users read when a job does not start.

Errors of the API server come first: pods that cannot be created do not exist. Slots that wait for their next pod are
next, and then the problem of an existing pod.
"""

from dataclasses import dataclass

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.slots.replacement_backoff import REASON, STABLE_AFTER_S, backing_off, backoff_s
from elasticjob_operator.policy.status.pod_messages import describe_replacement

NOT_CREATED, INVALID_TEMPLATE = "PodsNotCreated", "InvalidTemplate"
PREDECESSOR_RUNS = "PredecessorRuns"


@dataclass(frozen=True, slots=True)
class PendingReason:
    """A reason for programs, and a message that names the pod."""

    reason: str
    message: str


def first_pending_reason(snapshot: JobSnapshot) -> PendingReason | None:
    """Return the first reason there is, with pods by name; None if nothing keeps a pod from running."""
    if (refused := snapshot.job_state.failed_creation) is not None:
        return PendingReason(INVALID_TEMPLATE if refused.invalid else NOT_CREATED, refused.message)
    if snapshot.job_state.failed_creation_reason:
        return PendingReason(NOT_CREATED, snapshot.job_state.failed_creation_reason)
    if (backoff := _waiting(snapshot)) is not None:
        return backoff
    if (waits := _waits_for_predecessor(snapshot)) is not None:
        return waits
    pods = (pod for _, pod in sorted(snapshot.pods.items()) if pod.is_live and pod.is_blocked)
    pod = next(pods, None)
    if pod is None:
        return None
    return PendingReason(pod.reason, f"pod {pod.name}: {pod.reason}: {pod.message}".rstrip(": "))


def _waits_for_predecessor(snapshot: JobSnapshot) -> PendingReason | None:
    slot = min(snapshot.waiting_slots, default=None)
    if slot is None:
        return None
    name = snapshot.waiting_slots[slot]
    pod = snapshot.pods.get(name)
    where = f" on node {pod.node_name}" if pod is not None and pod.node_name else ""
    message = f"slot {slot} waits for pod {name}{where} to end before it gets a new one (podReplacementPolicy Failed)"
    cure = "; if that node is dead, delete it or taint it with node.kubernetes.io/out-of-service" if where else ""
    return PendingReason(PREDECESSOR_RUNS, f"{message}{cure}")


def _waiting(snapshot: JobSnapshot) -> PendingReason | None:
    """Return the reason of the first waiting slot; it has the end of the wait, so that the message stays the same."""
    due, owners, histories = (
        backing_off(snapshot.job_state.slot_histories, snapshot.monotonic_s),
        snapshot.owners,
        snapshot.job_state.slot_histories or {},
    )
    slot = min(due.keys() & owners.keys(), default=None)
    if slot is None:
        return None
    others = " (other slots wait too)" if len(due) > 1 else ""
    history = histories[slot]
    until_s = (history.ended_time_s or snapshot.now_s) + backoff_s(history.short_lived)
    ran = f"none of its last {history.short_lived} pods ran for {STABLE_AFTER_S:g} s"
    last = f"the last one, {owners[slot].name}: {describe_replacement(owners[slot])}"
    return PendingReason(
        REASON, f"slot {slot} waits for its next pod until {to_rfc3339(until_s)}{others}: {ran}; {last}"
    )
