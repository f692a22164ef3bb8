"""PURE: what one node does next, from the state alone: its workers, what it has written, the newest world seen.

The member's loop asks after every change of anything, carries out the one step, and asks again. A node
starts its workers from `active(r)` alone, if that names its incarnation and it never started (r, nonce);
`ready` is written only when no worker runs. A leaver writes that first, in the transaction that opens the next round.
So its peers move at once while its own workers still save.
"""

from dataclasses import dataclass
from enum import Enum

from elasticjob_agent.rendezvous.protocol.leader_plan import FAILURE_STOP_GRACE
from elasticjob_agent.rendezvous.protocol.ranks import rank_of
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import NO_ROUND
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase


class Workers(Enum):
    """The workers of one node as a group."""

    NONE = "none"
    """None runs: never started, or stopped and reaped."""
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    """All exited 0 and nothing of their trees is left."""
    FAILED = "failed"
    """One ended badly by itself; others may still run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Everything that decides a node's next step."""

    me: Member
    world: RendezvousState | None
    deleted: bool = False
    """A world was seen once, and is gone in the same store: the job was deleted."""
    workers: Workers = Workers.NONE
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    unreported_failures: bool = False
    """Workers failed by themselves and no record of it is written yet."""
    ready: int = NO_ROUND
    """The content of the own node key."""
    done_round: int = 0
    """The last round for which `done` is written."""
    settling: bool = False
    """Etcd was wiped or restored a moment ago: nothing is opened until all have had time to come back."""
    leave_requested: bool = False
    leave_reported: bool = False
    """The own node key says `leaving`."""
    leave_tried: bool = False
    """It was to say so, and etcd did not answer."""


class StepKind(Enum):
    """Kinds of step."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    STOP_FAST = "stop within the short grace"
    REPORT_READY = "say ready"
    REPORT_DONE = "say done"
    REPORT_LATE_FAILURES = "say late failures"
    OPEN_FAILED = "open a round: a worker failed"
    OPEN_LEAVING = "open a round: leaving"
    REPORT_LEAVING = "say leaving"
    LEAVE = "depart"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `group_rank` for START, `code` for EXIT (None: the job failed, its root cause decides)."""

    kind: StepKind
    group_rank: int = -1
    code: ExitCode | None = None


WAIT = Step(StepKind.WAIT)
_ALIVE = {Workers.RUNNING, Workers.FAILED}


def next_step(s: MemberState) -> Step:
    """The one thing to do now."""
    if s.deleted:
        return _stop_then(s, Step(StepKind.EXIT, code=ExitCode.JOB_DELETED), fast=True)
    if s.world is not None and s.world.state.is_final:
        code = ExitCode.OK if s.world.state is RoundPhase.SUCCEEDED else None
        return _stop_then(s, Step(StepKind.EXIT, code=code), fast=True)
    if s.leave_requested:
        return _leave(s)
    if s.world is None:
        return WAIT
    return _BY_STATE[s.world.state](s, s.world)


def _stop_then(s: MemberState, then: Step, *, fast: bool) -> Step:
    if s.workers in _ALIVE:
        return Step(StepKind.STOP_FAST if fast else StepKind.STOP)
    return WAIT if s.workers is Workers.STOPPING else then


def _leave(s: MemberState) -> Step:
    # Etcd's trouble is not waited for: the workers stop, and while they do it is said again. Who has none left goes.
    if not s.leave_reported and (s.workers is Workers.STOPPING or not s.leave_tried):
        return Step(StepKind.OPEN_LEAVING if _runs_its_round(s) and not s.settling else StepKind.REPORT_LEAVING)
    return _stop_then(s, Step(StepKind.LEAVE), fast=False)


def _runs_its_round(s: MemberState) -> bool:
    """A member of the active round that is not done: its leaving opens the next one."""
    if s.world is None or s.world.state is not RoundPhase.ACTIVE:
        return False
    return rank_of(s.world, s.me) is not None and s.done_round != s.world.round


def _suspended(s: MemberState, _world: RendezvousState) -> Step:
    return _stop_then(s, WAIT, fast=False)


def _form(s: MemberState, world: RendezvousState) -> Step:
    if s.workers in _ALIVE | {Workers.STOPPING}:
        return _stop_then(s, WAIT, fast=world.cause in FAILURE_STOP_GRACE)
    if s.unreported_failures:
        return Step(StepKind.REPORT_LATE_FAILURES)
    if s.ready == NO_ROUND and world.cause is Cause.FIRST:
        return WAIT  # idle is ready: there was no round yet that could have named this node
    return WAIT if s.ready == world.round else Step(StepKind.REPORT_READY)


def _run(s: MemberState, world: RendezvousState) -> Step:
    rank = rank_of(world, s.me)
    current = s.started == (world.round, world.nonce)
    if rank is None or (not current and s.workers in _ALIVE | {Workers.STOPPING}):
        return _stop_then(s, WAIT, fast=True)
    if not current:
        return Step(StepKind.START, group_rank=rank)
    if s.workers is Workers.FAILED and s.unreported_failures:
        return WAIT if s.settling else Step(StepKind.OPEN_FAILED)
    if s.workers is Workers.SUCCEEDED and s.done_round != world.round:
        return Step(StepKind.REPORT_DONE)
    return WAIT


_BY_STATE = {RoundPhase.FORMING: _form, RoundPhase.ACTIVE: _run, RoundPhase.SUSPENDED: _suspended}
