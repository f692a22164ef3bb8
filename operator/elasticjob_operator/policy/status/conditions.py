"""PURE: `status.conditions`, and the phase that is derived from them.

Each condition is judged on its own from what is seen; a condition's time changes only with its status. The reason of a
Running that is False names what the job is doing instead, and so gives the phase.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from elasticjob_api.constants import ConditionType, FailedReason, Phase
from elasticjob_api.rendezvous_state import Cause, State, World
from elasticjob_api.status import Condition
from elasticjob_operator.model.one_line import one_line
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.text import counted
from elasticjob_operator.model.text import nodes as _nodes
from elasticjob_operator.policy.etcd.space import FULL
from elasticjob_operator.policy.lifecycle import unknown_fields
from elasticjob_operator.policy.lifecycle.job_failure import failure_of
from elasticjob_operator.policy.lifecycle.replica_sizes import desired_nodes
from elasticjob_operator.policy.slots.lost_pods import shown_unreachable
from elasticjob_operator.policy.status.pending_reason import INVALID_TEMPLATE, first_trouble
from elasticjob_operator.policy.status.stalled import stalled_since

SUSPENDING = "Suspending"
STARTING = {Cause.FIRST, Cause.RESUMED}
_RESIZING = {Cause.NODE_JOINED, Cause.SCALED_DOWN}


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition as it is now."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""

    @property
    def holds(self) -> bool:
        """It is True."""
        return self.status == "True"


def judge(seen: Observed) -> dict[ConditionType, Judgement]:
    """All conditions of an accepted job that has not ended before."""
    suspended, running, quorum = _suspended(seen), _running(seen), _quorum(seen)
    return {
        ConditionType.ACCEPTED: _accepted(seen),
        ConditionType.UNKNOWN_FIELDS: _unknown_fields(seen),
        ConditionType.SUSPENDED: suspended,
        ConditionType.QUORUM_REACHED: quorum,
        ConditionType.RUNNING: running,
        ConditionType.RESIZING: _resizing(seen),
        ConditionType.DEGRADED: _degraded(seen),
        ConditionType.STALLED: _stalled(seen),
        ConditionType.RENDEZVOUS_UNAVAILABLE: _unavailable(seen),
        ConditionType.AGENTS_UNREACHABLE: _unreachable(seen),
        ConditionType.COMPLETE: _complete(seen),
        ConditionType.FAILED: _failed(seen),
    }


def _unknown_fields(seen: Observed) -> Judgement:
    if not (paths := seen.job.unknown_fields):
        return Judgement("False", "AllKnown")
    waiting = unknown_fields.waits(seen)
    reason = unknown_fields.WAITS if waiting else unknown_fields.IGNORED
    return Judgement("True", reason, unknown_fields.describe(paths, waiting=waiting))


def _accepted(seen: Observed) -> Judgement:
    refused = seen.ledger.failed_creation
    if refused is not None and refused.invalid:
        return Judgement("False", INVALID_TEMPLATE, refused.message)
    return Judgement("True", "Valid")


def _suspended(seen: Observed) -> Judgement:
    if not seen.job.spec.suspend or seen.view.final:
        return Judgement("False", "NotSuspended")
    if seen.view.spec is not None and not seen.view.spec.suspended:
        return Judgement("False", SUSPENDING, "the workers are about to be stopped")
    if left := len([pod for pod in seen.pods.values() if not pod.ended or pod.lingers]):
        return Judgement("False", SUSPENDING, f"{counted(left, 'pod')} still to stop")
    return Judgement("True", "Suspended", "spec.suspend is true")


def _quorum(seen: Observed) -> Judgement:
    live, lowest = len(seen.view.live_members()), seen.job.spec.lowest
    if seen.view.active is None:
        return Judgement("False", "NoActiveRound")
    if live < lowest and seen.ledger.unreachable:
        return Judgement("Unknown", ConditionType.AGENTS_UNREACHABLE, f"{live} of at least {_nodes(lowest)} answer")
    if live < lowest:
        return Judgement("False", "TooFewNodes", f"{live} of at least {_nodes(lowest)}")
    return Judgement("True", "MembersJoined", f"at least {_nodes(lowest)} joined")


def _running(seen: Observed) -> Judgement:
    world = seen.view.world
    if world is not None and world.state is State.ACTIVE:
        live = len(seen.view.live_members())
        if not live and any(pod.running for pod in seen.pods.values()):
            return Judgement("Unknown", ConditionType.AGENTS_UNREACHABLE, _unsupported(world))
        if not live:
            return Judgement("False", Phase.RESTARTING, f"no member of round {world.round} is left")
        why = f", after: {world.detail}" if world.detail else ""
        return Judgement("True", "RoundActive", f"round {world.round} runs with {_nodes(live)}{why}")
    reason, message = _instead(seen, world)
    return Judgement("False", reason, message)


def _unsupported(world: World) -> str:
    """An active round of which no member has a lease: its workers may train on, and nothing shows it."""
    return f"round {world.round} had {_nodes(len(world.members))}; no lease of their agents is left in etcd"


def _instead(seen: Observed, world: World | None) -> tuple[str, str]:
    """What the job does while no round is active; the reason is the phase's own word where it is one."""
    if seen.view.final:
        return "Finished", ""
    if seen.job.spec.suspend:
        suspended = _suspended(seen)
        return (Phase.SUSPENDED, "") if suspended.holds else (SUSPENDING, suspended.message)
    if world is not None and world.state is State.SUSPENDED:
        return _start(seen)  # about to be resumed
    if world is None or world.cause in STARTING:
        return _start(seen)
    if world.cause in _RESIZING:
        return Phase.RESIZING, world.detail
    return Phase.RESTARTING, world.detail


def _start(seen: Observed) -> tuple[str, str]:
    running = [pod for pod in seen.pods.values() if pod.running]
    if running:
        return Phase.STARTING, f"{len(seen.joined())} of {_nodes(desired_nodes(seen.job.spec))} joined"
    trouble = first_trouble(seen)
    return Phase.PENDING, trouble.message if trouble else "waiting for pods"


def _resizing(seen: Observed) -> Judgement:
    """True from a new wish for a number of nodes until a round has it."""
    active, wanted, before = seen.view.active, desired_nodes(seen.job.spec), seen.status
    if seen.view.final or seen.job.spec.suspend or seen.view.membership is None:
        return Judgement("False", "NotResizing")
    if active is not None and len(active.members) == wanted:
        return Judgement("False", "Resized", f"the round has {_nodes(wanted)}")
    was = any(c.type == ConditionType.RESIZING and c.status == "True" for c in before.conditions)
    if was or before.desired_replicas not in {0, wanted}:
        return Judgement("True", "Resizing", f"going to {_nodes(wanted)}")
    return Judgement("False", "NotResizing")


def _degraded(seen: Observed) -> Judgement:
    live, wanted = len(seen.view.live_members()), desired_nodes(seen.job.spec)
    if seen.view.active is not None and live < wanted:
        return Judgement("True", "NodesMissing", f"{live} of {_nodes(wanted)} run")
    return Judgement("False", "NotDegraded")


def _stalled(seen: Observed) -> Judgement:
    if not (since := stalled_since(seen)):
        return Judgement("False", "NotStalled")
    deadline_s = seen.job.spec.progress_deadline_s or 0.0
    message = (
        f"every worker has been silent and idle, or spinning, since {since} (progressDeadlineSeconds {deadline_s:g})"
    )
    return Judgement("True", "NoProgress", message)


def _unavailable(seen: Observed) -> Judgement:
    if seen.etcd_trouble:
        return Judgement("True", "NoSpace" if seen.etcd_trouble == FULL else "Unreachable", seen.etcd_trouble)
    if seen.view.unclear:
        return Judgement("True", "RecordUnreadable", "; ".join(seen.view.unreadable))
    return Judgement("False", "Reachable")


def _unreachable(seen: Observed) -> Judgement:
    silent = shown_unreachable(seen.job.spec, seen.ledger, seen.monotonic_s)
    if seen.view.final or not silent:
        return Judgement("False", "Reachable")
    running = sum(pod.running for pod in seen.pods.values())
    message = (
        f"{len(silent)} of {counted(running, 'agent')} fell silent together; their pods are left alone, and their "
        "workers may train on. Look at the network between the pods and etcd, and at etcd itself"
    )
    return Judgement("True", "SilentTogether", message)


def _complete(seen: Observed) -> Judgement:
    world = seen.view.world
    if world is not None and world.state is State.SUCCEEDED:
        return Judgement("True", "AllWorkersSucceeded", f"all workers of round {world.round} ended with 0")
    return Judgement("False", "NotComplete")


def _failed(seen: Observed) -> Judgement:
    if seen.view.excess:
        return Judgement("True", FailedReason.FOOTPRINT, f"its certificate is misused: {seen.view.excess}")
    world = seen.view.world
    if world is None or world.state is not State.FAILED:
        return Judgement("False", "NotFailed")
    failure = failure_of(world)
    return Judgement("True", failure.reason, failure.message)


def conditions(
    judged: Mapping[ConditionType, Judgement], before: Iterable[Condition], *, now: str, generation: int
) -> tuple[Condition, ...]:
    """The conditions as written; those of `before` that nobody judged now are kept."""
    known = {condition.type: condition for condition in before}
    for name, judgement in judged.items():
        old = known.get(name)
        since = old.last_transition_time if old is not None and old.status == judgement.status else now
        known[name] = Condition(
            type=name,
            status=judgement.status,
            reason=judgement.reason,
            message=one_line(judgement.message),
            last_transition_time=since,
            observed_generation=generation,
        )
    return tuple(known.values())


def holds(conditions: Iterable[Condition], name: ConditionType) -> bool:
    """The condition is there and True."""
    return any(condition.type == name and condition.status == "True" for condition in conditions)


def phase(conditions: Iterable[Condition]) -> Phase:
    """The one word for people, from the conditions alone."""
    by_type = {condition.type: condition for condition in conditions}
    for name, word in _FIRST_THAT_HOLDS:
        if name in by_type and by_type[name].status == "True":
            return word
    running = by_type.get(ConditionType.RUNNING)
    if running is None:
        return Phase.PENDING
    if running.status == "Unknown":
        return Phase.STARTING  # a word of its own would make an operator of the version before drop the whole status
    if running.status == "True":
        return Phase.RESIZING if holds(by_type.values(), ConditionType.RESIZING) else Phase.RUNNING
    if running.reason == SUSPENDING:
        return Phase.RUNNING  # its pods still stop, and no word of its own, as above; the headline has the reason
    return Phase(running.reason) if running.reason in set(Phase) else Phase.PENDING


_FIRST_THAT_HOLDS = (
    (ConditionType.FAILED, Phase.FAILED),
    (ConditionType.COMPLETE, Phase.SUCCEEDED),
    (ConditionType.SUSPENDED, Phase.SUSPENDED),
)
