"""PURE: `status.conditions`, and the phase that is derived from them.

Each condition is judged on its own from what is seen; a condition's time changes only with its status. The reason of a
Running that is False names what the job is doing instead, and so gives the phase.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from elasticjob_api.constants import ConditionType, FailedReason, Phase
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_api.status import Condition
from elasticjob_operator.model.one_line import one_line
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import node_count_text as _nodes
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.policy.etcd.space import FULL
from elasticjob_operator.policy.lifecycle import unknown_fields
from elasticjob_operator.policy.lifecycle.job_failure import failure_of
from elasticjob_operator.policy.lifecycle.replica_sizes import desired_nodes
from elasticjob_operator.policy.slots.lost_pods import reported_unreachable
from elasticjob_operator.policy.status.pending_reason import INVALID_TEMPLATE, first_pending_reason
from elasticjob_operator.policy.status.stalled import stalled_since

SUSPENDING = "Suspending"
STARTING = {Cause.FIRST, Cause.RESUMED}
_RESIZING = {Cause.NODE_JOINED, Cause.SCALED_DOWN}


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """One condition as it is now."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""

    @property
    def is_true(self) -> bool:
        """It is True."""
        return self.status == "True"


def evaluate(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    """All conditions of an accepted job that has not ended before."""
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
        ConditionType.COMPLETE: _complete(snapshot),
        ConditionType.FAILED: _failed(snapshot),
    }


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
        return ConditionValue("False", SUSPENDING, "the workers are about to be stopped")
    if left := len([pod for pod in snapshot.pods.values() if not pod.ended or pod.has_running_sidecar]):
        return ConditionValue("False", SUSPENDING, f"{pluralize(left, 'pod')} still to stop")
    return ConditionValue("True", "Suspended", "spec.suspend is true")


def _quorum(snapshot: JobSnapshot) -> ConditionValue:
    live, lowest = len(snapshot.view.live_members()), snapshot.job.spec.effective_min
    if snapshot.view.is_active is None:
        return ConditionValue("False", "NoActiveRound")
    if live < lowest and snapshot.job_state.unreachable:
        return ConditionValue(
            "Unknown", ConditionType.AGENTS_UNREACHABLE, f"{live} of at least {_nodes(lowest)} answer"
        )
    if live < lowest:
        return ConditionValue("False", "TooFewNodes", f"{live} of at least {_nodes(lowest)}")
    return ConditionValue("True", "MembersJoined", f"at least {_nodes(lowest)} joined")


def _running(snapshot: JobSnapshot) -> ConditionValue:
    world = snapshot.view.world
    if world is not None and world.state is RoundPhase.ACTIVE:
        live = len(snapshot.view.live_members())
        if not live and any(pod.running for pod in snapshot.pods.values()):
            return ConditionValue("Unknown", ConditionType.AGENTS_UNREACHABLE, _unsupported(world))
        if not live:
            return ConditionValue("False", Phase.RESTARTING, f"no member of round {world.round} is left")
        why = f", after: {world.message}" if world.message else ""
        return ConditionValue("True", "RoundActive", f"round {world.round} runs with {_nodes(live)}{why}")
    reason, message = _not_running(snapshot, world)
    return ConditionValue("False", reason, message)


def _unsupported(world: RendezvousState) -> str:
    """An active round of which no member has a lease: its workers may train on, and nothing shows it."""
    return f"round {world.round} had {_nodes(len(world.members))}; no lease of their agents is left in etcd"


def _not_running(snapshot: JobSnapshot, world: RendezvousState | None) -> tuple[str, str]:
    """What the job does while no round is active; the reason is the phase's own word where it is one."""
    if snapshot.view.is_final:
        return "Finished", ""
    if snapshot.job.spec.suspend:
        suspended = _suspended(snapshot)
        return (Phase.SUSPENDED, "") if suspended.is_true else (SUSPENDING, suspended.message)
    if world is not None and world.state is RoundPhase.SUSPENDED:
        return _start(snapshot)  # about to be resumed
    if world is None or world.cause in STARTING:
        return _start(snapshot)
    if world.cause in _RESIZING:
        return Phase.RESIZING, world.message
    return Phase.RESTARTING, world.message


def _start(snapshot: JobSnapshot) -> tuple[str, str]:
    running = [pod for pod in snapshot.pods.values() if pod.running]
    if running:
        return Phase.STARTING, f"{len(snapshot.joined_slots())} of {_nodes(desired_nodes(snapshot.job.spec))} joined"
    pending = first_pending_reason(snapshot)
    return Phase.PENDING, pending.message if pending else "waiting for pods"


def _resizing(snapshot: JobSnapshot) -> ConditionValue:
    """True from a new wish for a number of nodes until a round has it."""
    active, wanted, before = snapshot.view.is_active, desired_nodes(snapshot.job.spec), snapshot.status
    if snapshot.view.is_final or snapshot.job.spec.suspend or snapshot.view.membership is None:
        return ConditionValue("False", "NotResizing")
    if active is not None and len(active.members) == wanted:
        return ConditionValue("False", "Resized", f"the round has {_nodes(wanted)}")
    was = any(c.type == ConditionType.RESIZING and c.status == "True" for c in before.conditions)
    if was or before.desired_replicas not in {0, wanted}:
        return ConditionValue("True", "Resizing", f"going to {_nodes(wanted)}")
    return ConditionValue("False", "NotResizing")


def _degraded(snapshot: JobSnapshot) -> ConditionValue:
    live, wanted = len(snapshot.view.live_members()), desired_nodes(snapshot.job.spec)
    if snapshot.view.is_active is not None and live < wanted:
        return ConditionValue("True", "NodesMissing", f"{live} of {_nodes(wanted)} run")
    return ConditionValue("False", "NotDegraded")


def _stalled(snapshot: JobSnapshot) -> ConditionValue:
    if not (since := stalled_since(snapshot)):
        return ConditionValue("False", "NotStalled")
    deadline_s = snapshot.job.spec.progress_deadline_s or 0.0
    message = (
        f"every worker has been silent and idle, or spinning, since {since} (progressDeadlineSeconds {deadline_s:g})"
    )
    return ConditionValue("True", "NoProgress", message)


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
        f"{len(silent)} of {pluralize(running, 'agent')} fell silent together; their pods are left alone, and their "
        "workers may train on. Look at the network between the pods and etcd, and at etcd itself"
    )
    return ConditionValue("True", "SilentTogether", message)


def _complete(snapshot: JobSnapshot) -> ConditionValue:
    world = snapshot.view.world
    if world is not None and world.state is RoundPhase.SUCCEEDED:
        return ConditionValue("True", "AllWorkersSucceeded", f"all workers of round {world.round} ended with 0")
    return ConditionValue("False", "NotComplete")


def _failed(snapshot: JobSnapshot) -> ConditionValue:
    if snapshot.view.quota_violation:
        return ConditionValue(
            "True", FailedReason.FOOTPRINT, f"its certificate is misused: {snapshot.view.quota_violation}"
        )
    world = snapshot.view.world
    if world is None or world.state is not RoundPhase.FAILED:
        return ConditionValue("False", "NotFailed")
    failure = failure_of(world)
    return ConditionValue("True", failure.reason, failure.message)


def conditions(
    values: Mapping[ConditionType, ConditionValue], before: Iterable[Condition], *, now: str, generation: int
) -> tuple[Condition, ...]:
    """The conditions as written; those of `before` that nobody judged now are kept."""
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
    """The condition is there and True."""
    return any(condition.type == name and condition.status == "True" for condition in conditions)


def phase(conditions: Iterable[Condition]) -> Phase:
    """The one word for people, from the conditions alone."""
    by_type = {condition.type: condition for condition in conditions}
    for name, word in _REASON_PRIORITY:
        if name in by_type and by_type[name].status == "True":
            return word
    running = by_type.get(ConditionType.RUNNING)
    if running is None:
        return Phase.PENDING
    if running.status == "Unknown":
        return Phase.STARTING  # a word of its own would make an operator of the version before drop the whole status
    if running.status == "True":
        return Phase.RESIZING if is_true(by_type.values(), ConditionType.RESIZING) else Phase.RUNNING
    if running.reason == SUSPENDING:
        return Phase.RUNNING  # its pods still stop, and no word of its own, as above; the headline has the reason
    return Phase(running.reason) if running.reason in set(Phase) else Phase.PENDING


_REASON_PRIORITY = (
    (ConditionType.FAILED, Phase.FAILED),
    (ConditionType.COMPLETE, Phase.SUCCEEDED),
    (ConditionType.SUSPENDED, Phase.SUSPENDED),
)
