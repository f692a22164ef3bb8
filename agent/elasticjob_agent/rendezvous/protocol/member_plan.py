"""PURE: what one node does next, from the state alone: its workers, what it has written, the newest world seen.

The member's loop asks after every change of anything, carries out the one step, and asks again. A node
starts its workers from `active(r)` alone, if that names its incarnation and it never started (r, nonce);
`ready` is written only when no worker runs. A leaver writes that first, in the transaction that opens the next round.
So its peers move at once while its own workers still save.
"""

from dataclasses import dataclass
from enum import Enum

from elasticjob_agent.rendezvous.protocol.leader_plan import SHORT_GRACE
from elasticjob_agent.rendezvous.protocol.ranks import place_of
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import IDLE
from elasticjob_api.rendezvous_state import Cause, Member, State, World


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
class Situation:
    """Everything that decides a node's next step."""

    me: Member
    world: World | None
    deleted: bool = False
    """A world was seen once, and is gone in the same store: the job was deleted."""
    workers: Workers = Workers.NONE
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    unsaid_failures: bool = False
    """Workers failed by themselves and no record of it is written yet."""
    ready: int = IDLE
    """The content of the own node key."""
    done_round: int = 0
    """The last round for which `done` is written."""
    quiet: bool = False
    """Etcd was wiped or restored a moment ago: nothing is opened until all have had time to come back."""
    leave_requested: bool = False
    leave_said: bool = False
    """The own node key says `leaving`."""
    leave_tried: bool = False
    """It was to say so, and etcd did not answer."""


class Do(Enum):
    """Kinds of step."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    STOP_SOON = "stop within the short grace"
    SAY_READY = "say ready"
    SAY_DONE = "say done"
    SAY_LATE_FAILURES = "say late failures"
    OPEN_FAILED = "open a round: a worker failed"
    OPEN_LEAVING = "open a round: leaving"
    SAY_LEAVING = "say leaving"
    DEPART = "depart"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `group_rank` for START, `code` for EXIT (None: the job failed, its root cause decides)."""

    do: Do
    group_rank: int = -1
    code: ExitCode | None = None


WAIT = Step(Do.WAIT)
_ALIVE = {Workers.RUNNING, Workers.FAILED}


def next_step(s: Situation) -> Step:
    """The one thing to do now."""
    if s.deleted:
        return _stop_then(s, Step(Do.EXIT, code=ExitCode.JOB_DELETED), soon=True)
    if s.world is not None and s.world.state.final:
        code = ExitCode.OK if s.world.state is State.SUCCEEDED else None
        return _stop_then(s, Step(Do.EXIT, code=code), soon=True)
    if s.leave_requested:
        return _leave(s)
    if s.world is None:
        return WAIT
    return _BY_STATE[s.world.state](s, s.world)


def _stop_then(s: Situation, then: Step, *, soon: bool) -> Step:
    if s.workers in _ALIVE:
        return Step(Do.STOP_SOON if soon else Do.STOP)
    return WAIT if s.workers is Workers.STOPPING else then


def _leave(s: Situation) -> Step:
    # Etcd's trouble is not waited for: the workers stop, and while they do it is said again. Who has none left goes.
    if not s.leave_said and (s.workers is Workers.STOPPING or not s.leave_tried):
        return Step(Do.OPEN_LEAVING if _runs_its_round(s) and not s.quiet else Do.SAY_LEAVING)
    return _stop_then(s, Step(Do.DEPART), soon=False)


def _runs_its_round(s: Situation) -> bool:
    """A member of the active round that is not done: its leaving opens the next one."""
    if s.world is None or s.world.state is not State.ACTIVE:
        return False
    return place_of(s.world, s.me) is not None and s.done_round != s.world.round


def _suspended(s: Situation, _world: World) -> Step:
    return _stop_then(s, WAIT, soon=False)


def _form(s: Situation, world: World) -> Step:
    if s.workers in _ALIVE | {Workers.STOPPING}:
        return _stop_then(s, WAIT, soon=world.cause in SHORT_GRACE)
    if s.unsaid_failures:
        return Step(Do.SAY_LATE_FAILURES)
    if s.ready == IDLE and world.cause is Cause.FIRST:
        return WAIT  # idle is ready: there was no round yet that could have named this node
    return WAIT if s.ready == world.round else Step(Do.SAY_READY)


def _run(s: Situation, world: World) -> Step:
    rank = place_of(world, s.me)
    current = s.started == (world.round, world.nonce)
    if rank is None or (not current and s.workers in _ALIVE | {Workers.STOPPING}):
        return _stop_then(s, WAIT, soon=True)
    if not current:
        return Step(Do.START, group_rank=rank)
    if s.workers is Workers.FAILED and s.unsaid_failures:
        return WAIT if s.quiet else Step(Do.OPEN_FAILED)
    if s.workers is Workers.SUCCEEDED and s.done_round != world.round:
        return Step(Do.SAY_DONE)
    return WAIT


_BY_STATE = {State.FORMING: _form, State.ACTIVE: _run, State.SUSPENDED: _suspended}
