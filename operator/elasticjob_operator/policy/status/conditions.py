"""`status.conditions`, and the phase that is derived from them.

Each condition is evaluated on its own from the snapshot. Its time changes only with its status. If Running is False,
its reason names what the job does instead, and so determines the phase.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from elasticjob_api.constants import ConditionType, FailedReason, Phase
from elasticjob_api.job_failure import failure_of
from elasticjob_api.one_line import one_line
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_api.status import Condition
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import node_count_text as _nodes
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.policy.etcd.space import FULL
from elasticjob_operator.policy.lifecycle import unknown_fields
from elasticjob_operator.policy.slots.lost_pods import reported_unreachable
from elasticjob_operator.policy.status.keep import NO_STEP, degradation
from elasticjob_operator.policy.status.pending_reason import INVALID_TEMPLATE, first_pending_reason
from elasticjob_operator.policy.status.stalled import stalled_since

SUSPENDING = "Suspending"
STARTING = {Cause.FIRST, Cause.RESUMED}
_RESIZING = {Cause.NODE_JOINED, Cause.SCALED_DOWN}
_NO_STEP = "no step is committed yet: workers have published none whose parts are all there, with their copies"


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """The current value of one condition."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""

    @property
    def is_true(self) -> bool:
        """Whether the condition is True."""
        return self.status == "True"


def evaluate(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    """Return all conditions of an accepted job that had not ended before."""
    suspended, running, quorum = _suspended(snapshot), _running(snapshot), _quorum(snapshot)
    return {
        ConditionType.ACCEPTED: _accepted(snapshot),
        ConditionType.UNKNOWN_FIELDS: _unknown_fields(snapshot),
        ConditionType.SUSPENDED: suspended,
        ConditionType.QUORUM_REACHED: quorum,
        ConditionType.RUNNING: running,
        ConditionType.RESIZING: _resizing(snapshot),
        ConditionType.DEGRADED: _degraded(snapshot),
        ConditionType.STALLED: _stalled(snapshot),
        ConditionType.RENDEZVOUS_UNAVAILABLE: _unavailable(snapshot),
        ConditionType.AGENTS_UNREACHABLE: _unreachable(snapshot),
        **_keep_degraded(snapshot),
        ConditionType.COMPLETE: _complete(snapshot),
        ConditionType.FAILED: _failed(snapshot),
    }


def _keep_degraded(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    """Return the condition, which a job has from its first use of Keep."""
    known = any(condition.type == ConditionType.KEEP_DEGRADED for condition in snapshot.status.conditions)
    if snapshot.job.spec.keep is None and not known:
        return {}
    reason, message = degradation(snapshot)
    remark = _NO_STEP if reason == NO_STEP else ""
    return {ConditionType.KEEP_DEGRADED: ConditionValue("True" if message else "False", reason, message or remark)}


def _unknown_fields(snapshot: JobSnapshot) -> ConditionValue:
    if not (paths := snapshot.job.unknown_fields):
        return ConditionValue("False", "AllKnown")
    waiting = unknown_fields.is_waiting(snapshot)
    reason = unknown_fields.WAITING if waiting else unknown_fields.IGNORED
    return ConditionValue("True", reason, unknown_fields.describe(paths, waiting=waiting))


def _accepted(snapshot: JobSnapshot) -> ConditionValue:
    refused = snapshot.job_state.failed_creation
    if refused is not None and refused.invalid:
        return ConditionValue("False", INVALID_TEMPLATE, refused.message)
    return ConditionValue("True", "Valid")


def _suspended(snapshot: JobSnapshot) -> ConditionValue:
    if not snapshot.job.spec.suspend or snapshot.view.is_final:
        return ConditionValue("False", "NotSuspended")
    if snapshot.view.spec is not None and not snapshot.view.spec.suspended:
        return ConditionValue("False", SUSPENDING, "the operator is about to stop the workers")
    if left := len([pod for pod in snapshot.pods.values() if not pod.ended or pod.has_running_sidecar]):
        return ConditionValue("False", SUSPENDING, f"waiting for {pluralize(left, 'pod')} to stop")
    return ConditionValue("True", "Suspended", "spec.suspend is true")


def _quorum(snapshot: JobSnapshot) -> ConditionValue:
    live, lowest = len(snapshot.view.live_members()), snapshot.job.spec.effective_min
    if snapshot.view.active_state is None:
        return ConditionValue("False", "NoActiveRound")
    if live < lowest and snapshot.job_state.unreachable:
        return ConditionValue(
            "Unknown", ConditionType.AGENTS_UNREACHABLE, f"{live} of at least {_nodes(lowest)} are reachable"
        )
    if live < lowest:
        return ConditionValue("False", "TooFewNodes", f"{live} of at least {_nodes(lowest)} have joined")
    return ConditionValue("True", "MembersJoined", f"at least {_nodes(lowest)} have joined")


def _running(snapshot: JobSnapshot) -> ConditionValue:
    state = snapshot.view.state
    if state is not None and state.phase is RoundPhase.ACTIVE:
        live = len(snapshot.view.live_members())
        if not live and any(pod.running for pod in snapshot.pods.values()):
            return ConditionValue("Unknown", ConditionType.AGENTS_UNREACHABLE, _unsupported(state))
        if not live:
            return ConditionValue("False", Phase.RESTARTING, f"round {state.round} has no live member")
        why = f", after: {state.message}" if state.message else ""
        return ConditionValue("True", "RoundActive", f"round {state.round} runs with {_nodes(live)}{why}")
    reason, message = _not_running(snapshot, state)
    return ConditionValue("False", reason, message)


def _unsupported(state: RendezvousState) -> str:
    """Return the message for an active round of which no member has a lease."""
    size = _nodes(len(state.members))
    return f"round {state.round} ({size}): no agent has a lease in etcd any more; the workers may continue to train"


def _not_running(snapshot: JobSnapshot, state: RendezvousState | None) -> tuple[str, str]:
    """Return reason and message while no round is active; the reason is the name of the phase where one fits."""
    if snapshot.view.is_final:
        return "Finished", ""
    if snapshot.job.spec.suspend:
        suspended = _suspended(snapshot)
        return (Phase.SUSPENDED, "") if suspended.is_true else (SUSPENDING, suspended.message)
    if state is not None and state.phase is RoundPhase.SUSPENDED:
        return _start(snapshot)  # the next reconcile resumes it
    if state is None or state.cause in STARTING:
        return _start(snapshot)
    if state.cause in _RESIZING:
        return Phase.RESIZING, state.message
    return Phase.RESTARTING, state.message


def _start(snapshot: JobSnapshot) -> tuple[str, str]:
    running = [pod for pod in snapshot.pods.values() if pod.running]
    if running:
        return Phase.STARTING, f"{len(snapshot.joined_slots)} of {_nodes(snapshot.job.spec.desired_nodes)} joined"
    pending = first_pending_reason(snapshot)
    return Phase.PENDING, pending.message if pending else "waiting for pods"


def _resizing(snapshot: JobSnapshot) -> ConditionValue:
    """Return Resizing: True from a change of the wanted size until a round has that size."""
    active, wanted, before = snapshot.view.active_state, snapshot.job.spec.desired_nodes, snapshot.status
    if snapshot.view.is_final or snapshot.job.spec.suspend or snapshot.view.membership is None:
        return ConditionValue("False", "NotResizing")
    if active is not None and len(active.members) == wanted:
        return ConditionValue("False", "Resized", f"the round has {_nodes(wanted)}")
    was = any(c.type == ConditionType.RESIZING and c.status == "True" for c in before.conditions)
    if was or before.desired_replicas not in {0, wanted}:
        return ConditionValue("True", "Resizing", f"resizing to {_nodes(wanted)}")
    return ConditionValue("False", "NotResizing")


def _degraded(snapshot: JobSnapshot) -> ConditionValue:
    live, wanted = len(snapshot.view.live_members()), snapshot.job.spec.desired_nodes
    if snapshot.view.active_state is not None and live < wanted:
        return ConditionValue("True", "NodesMissing", f"{live} of {_nodes(wanted)} are running")
    return ConditionValue("False", "NotDegraded")


def _stalled(snapshot: JobSnapshot) -> ConditionValue:
    if not (since := stalled_since(snapshot)):
        return ConditionValue("False", "NotStalled")
    deadline_s = snapshot.job.spec.progress_deadline_s or 0.0
    activity = "every worker is idle or spinning, and none has written or reported anything"
    return ConditionValue("True", "NoProgress", f"{activity} since {since} (progressDeadlineSeconds {deadline_s:g})")


def _unavailable(snapshot: JobSnapshot) -> ConditionValue:
    if snapshot.etcd_trouble:
        return ConditionValue(
            "True", "NoSpace" if snapshot.etcd_trouble == FULL else "Unreachable", snapshot.etcd_trouble
        )
    if snapshot.view.is_unreadable:
        return ConditionValue("True", "RecordUnreadable", "; ".join(snapshot.view.unreadable))
    return ConditionValue("False", "Reachable")


def _unreachable(snapshot: JobSnapshot) -> ConditionValue:
    silent = reported_unreachable(snapshot.job.spec, snapshot.job_state, snapshot.monotonic_s)
    if snapshot.view.is_final or not silent:
        return ConditionValue("False", "Reachable")
    running = sum(pod.running for pod in snapshot.pods.values())
    message = (
        f"{len(silent)} of {pluralize(running, 'agent')} lost their lease in etcd at about the same time; their pods "
        "are not replaced, and workers may continue to train. Check etcd, and the network between it and the pods"
    )
    return ConditionValue("True", "SilentTogether", message)


def _complete(snapshot: JobSnapshot) -> ConditionValue:
    state = snapshot.view.state
    if state is not None and state.phase is RoundPhase.SUCCEEDED:
        return ConditionValue("True", "AllWorkersSucceeded", f"all workers of round {state.round} exited with code 0")
    return ConditionValue("False", "NotComplete")


def _failed(snapshot: JobSnapshot) -> ConditionValue:
    if snapshot.view.quota_violation:
        return ConditionValue(
            "True", FailedReason.FOOTPRINT, f"the job's certificate is misused: {snapshot.view.quota_violation}"
        )
    state = snapshot.view.state
    if state is None or state.phase is not RoundPhase.FAILED:
        return ConditionValue("False", "NotFailed")
    failure = failure_of(state)
    return ConditionValue("True", failure.reason, failure.message)


def conditions(
    values: Mapping[ConditionType, ConditionValue], before: Iterable[Condition], *, now: str, generation: int
) -> tuple[Condition, ...]:
    """Return the conditions to write; those of `before` without a new value are kept."""
    known = {condition.type: condition for condition in before}
    for name, value in values.items():
        old = known.get(name)
        since = old.last_transition_time if old is not None and old.status == value.status else now
        known[name] = Condition(
            type=name,
            status=value.status,
            reason=value.reason,
            message=one_line(value.message),
            last_transition_time=since,
            observed_generation=generation,
        )
    return tuple(known.values())


def is_true(conditions: Iterable[Condition], name: ConditionType) -> bool:
    """Return whether the condition exists and is True."""
    return any(condition.type == name and condition.status == "True" for condition in conditions)


def phase(conditions: Iterable[Condition]) -> Phase:
    """Return the phase, which depends on the conditions alone."""
    by_type = {condition.type: condition for condition in conditions}
    for name, value in _REASON_PRIORITY:
        if name in by_type and by_type[name].status == "True":
            return value
    running = by_type.get(ConditionType.RUNNING)
    if running is None:
        return Phase.PENDING
    if running.status == "Unknown":
        return Phase.STARTING  # an operator of the previous version would reject a status with a new phase
    if running.status == "True":
        return Phase.RESIZING if is_true(by_type.values(), ConditionType.RESIZING) else Phase.RUNNING
    if running.reason == SUSPENDING:
        return Phase.RUNNING  # its pods are stopping; no new phase, as above: status.reason shows it
    return Phase(running.reason) if running.reason in set(Phase) else Phase.PENDING


_REASON_PRIORITY = (
    (ConditionType.FAILED, Phase.FAILED),
    (ConditionType.COMPLETE, Phase.SUCCEEDED),
    (ConditionType.SUSPENDED, Phase.SUSPENDED),
)
