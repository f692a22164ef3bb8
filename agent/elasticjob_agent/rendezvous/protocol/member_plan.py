"""The next step of one node, from the state alone: its workers, its own records, the newest state received.

The member's loop asks after each change, carries out the one step, and asks again. A node starts its workers from
`active(r)` alone. That state must name its incarnation, and the node must not have started (r, nonce) before. If the
round restores a step, all of its parts must be here. `ready` is written only when no worker runs. A leaving node first
writes `leaving`, in the transaction that opens the next round. So its peers stop at once while its own workers still
save.
"""

from dataclasses import dataclass
from enum import Enum

from elasticjob_agent.rendezvous.protocol.ranks import rank_of
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import NO_ROUND
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase


class Workers(Enum):
    """The workers of one node as a group."""

    NONE = "none"
    """No worker runs: never started, or stopped and reaped."""
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    """All workers exited with code 0, and no process of theirs is left."""
    FAILED = "failed"
    """A worker failed by itself; others may still run."""


class RestorePhase(Enum):
    """How far this node is with the step that the active round restores."""

    NOT_NEEDED = "not needed"
    """The round restores no step."""
    PREPARING = "preparing"
    """The node's keeper does not know the round yet. No worker of the round runs."""
    FETCHING = "fetching"
    """Parts are missing here, and are fetched from other nodes. No worker of the round runs."""
    COMPLETE = "complete"
    """All parts are here, in the directory that the workers read."""
    FAILED = "failed"
    """No node could serve the missing parts in time, or they do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """All that a node's next step depends on."""

    me: Member
    state: RendezvousState | None
    deleted: bool = False
    """Whether a state was received once and is gone from the same store: the job was deleted."""
    workers: Workers = Workers.NONE
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    unreported_failures: bool = False
    """Whether a worker failed by itself and no record of that is written yet."""
    ready: int = NO_ROUND
    """The field `ready` of the own node record."""
    has_keeper: bool = False
    """Whether this node keeps steps in memory."""
    has_holdings: bool = False
    """Whether this node has parts of steps in memory."""
    has_listed_since: bool = False
    """Whether this node has listed the shared directory since it reported its holdings.

    While a round forms, also whether it knows other steps there than it reported.
    """
    persists: bool = False
    """Whether this node writes its last steps to a shared directory before it ends."""
    has_sealed: bool = False
    """Whether the holdings of this node at the end that the state brings were reported, or that was tried."""
    lingers: bool = False
    """Whether other nodes may still fetch what this node has, or it still writes steps to disk, though it ends."""
    restore: RestorePhase = RestorePhase.NOT_NEEDED
    done_round: int = 0
    """The last round for which a done record is written."""
    settling: bool = False
    """Whether etcd was wiped or restored a short time ago: nothing is opened until all agents had time to rejoin."""
    leave_requested: bool = False
    leave_reported: bool = False
    """Whether the own node record has `leaving`."""
    leave_tried: bool = False
    """Whether the write of `leaving` was tried, and etcd did not answer."""
    may_still_report: bool = False
    """Whether the time in which a leaving node serves others is not over yet, so that the write may be tried again."""


class StepKind(Enum):
    """Kinds of step."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    STOP_FAST = "stop within the short grace"
    REPORT_READY = "report ready"
    REPORT_DONE = "report done"
    REPORT_LATE_FAILURES = "report late failures"
    REPORT_SEALED = "report the last kept steps"
    REPORT_LISTED = "report the steps of the shared directory"
    OPEN_FAILED = "open a round for a failed worker"
    OPEN_RESTORE_FAILED = "open a round without the step that could not be restored"
    OPEN_LEAVING = "open a round to leave"
    REPORT_LEAVING = "report leaving"
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
    """Return the one step to take now."""
    if s.deleted:
        return _stop_then(s, Step(StepKind.EXIT, code=ExitCode.JOB_DELETED), fast=True)
    if s.state is not None and s.state.phase.is_final:
        code = ExitCode.OK if s.state.phase is RoundPhase.SUCCEEDED else None
        return _stop_then(s, _drain_then(s, Step(StepKind.EXIT, code=code)), fast=True)
    if s.leave_requested:
        return _leave(s)
    if s.state is None:
        return WAIT
    return _BY_STATE[s.state.phase](s, s.state)


def _stop_then(s: MemberState, then: Step, *, fast: bool) -> Step:
    if s.workers in _ALIVE:
        return Step(StepKind.STOP_FAST if fast else StepKind.STOP)
    return WAIT if s.workers is Workers.STOPPING else then


def _drain_then(s: MemberState, then: Step) -> Step:
    """Return `then`, after the last steps of a job whose nodes all end are on disk."""
    if not s.persists:
        return then
    if not s.has_sealed:
        return Step(StepKind.REPORT_SEALED)
    return WAIT if s.lingers else then


def _leave(s: MemberState) -> Step:
    # An etcd that does not answer is not waited for: the workers stop, and the report is tried again until they have.
    if not s.leave_reported and (s.workers is Workers.STOPPING or not s.leave_tried):
        return _report_leaving(s)
    return _stop_then(s, _depart(s), fast=False)


def _report_leaving(s: MemberState) -> Step:
    return Step(StepKind.OPEN_LEAVING if _runs_its_round(s) and not s.settling else StepKind.REPORT_LEAVING)


def _depart(s: MemberState) -> Step:
    """Return the step of a leaving node without workers: its peers get its last steps before it goes."""
    if not s.has_keeper or s.state is None:
        return Step(StepKind.LEAVE)
    if s.state.phase is RoundPhase.SUSPENDED:  # no node waits for the report, and the disk needs no other node
        return _drain_then(s, Step(StepKind.LEAVE))
    if not s.leave_reported:  # until then, no other node asks for what only this one has
        return _report_leaving(s) if s.may_still_report else Step(StepKind.LEAVE)
    if s.state.phase is RoundPhase.FORMING and s.ready != s.state.round:
        return Step(StepKind.REPORT_READY)
    return WAIT if s.lingers else Step(StepKind.LEAVE)


def _runs_its_round(s: MemberState) -> bool:
    """Whether this is a member of the active round that is not done: its leave opens the next round."""
    if s.state is None or s.state.phase is not RoundPhase.ACTIVE:
        return False
    return rank_of(s.state, s.me) is not None and s.done_round != s.state.round


def _suspended(s: MemberState, _state: RendezvousState) -> Step:
    return _stop_then(s, _drain_then(s, WAIT), fast=False)


def _form(s: MemberState, state: RendezvousState) -> Step:
    if s.workers in _ALIVE | {Workers.STOPPING}:
        return _stop_then(s, WAIT, fast=state.is_failure_stop)
    if s.unreported_failures:
        return Step(StepKind.REPORT_LATE_FAILURES)
    if s.ready == NO_ROUND and state.cause is Cause.FIRST and not s.has_holdings:
        return _idle(s)  # an idle node is ready: no round yet could have named it
    return _idle(s) if s.ready == state.round else Step(StepKind.REPORT_READY)


def _idle(s: MemberState) -> Step:
    return Step(StepKind.REPORT_LISTED) if s.has_listed_since else WAIT


def _run(s: MemberState, state: RendezvousState) -> Step:
    rank = rank_of(state, s.me)
    current = s.started == (state.round, state.nonce)
    if rank is None or (not current and s.workers in _ALIVE | {Workers.STOPPING}):
        return _stop_then(s, _idle(s), fast=True)
    if not current:
        return _start(s, state, rank)
    if s.workers is Workers.FAILED and s.unreported_failures:
        return WAIT if s.settling else Step(StepKind.OPEN_FAILED)
    if s.workers is Workers.SUCCEEDED and s.done_round != state.round:
        return Step(StepKind.REPORT_DONE)
    return WAIT


def _start(s: MemberState, state: RendezvousState, rank: int) -> Step:
    if s.restore is RestorePhase.PREPARING:
        return WAIT
    if not state.restore or s.restore is RestorePhase.COMPLETE:
        return Step(StepKind.START, group_rank=rank)
    # An older step is never taken instead: the members of a round restore the same one.
    may_open = s.restore is RestorePhase.FAILED and not s.settling
    return Step(StepKind.OPEN_RESTORE_FAILED) if may_open else WAIT


_BY_STATE = {RoundPhase.FORMING: _form, RoundPhase.ACTIVE: _run, RoundPhase.SUSPENDED: _suspended}
