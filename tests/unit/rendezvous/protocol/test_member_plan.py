"""The next step of one node."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import (
    WAIT,
    MemberState,
    RestorePhase,
    Step,
    StepKind,
    Workers,
    next_step,
)
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase

ME = Member(1, "0000000a")
OTHER = Member(0, "0000000b")
MINE = (3, "nonce3")

ACTIVE = RendezvousState(phase=RoundPhase.ACTIVE, round=3, nonce="nonce3", members=(OTHER, ME))
ACTIVE_WITHOUT_ME = replace(ACTIVE, members=(OTHER,))
RESTORING = replace(ACTIVE, restore="2.nonce2.120.2")
FORMING = RendezvousState(phase=RoundPhase.FORMING, round=4, nonce="nonce4", cause=Cause.NODE_JOINED)
FIRST = RendezvousState(phase=RoundPhase.FORMING, round=1, nonce="nonce1")
FAILURE = replace(FORMING, cause=Cause.WORKER_FAILED)
SUSPENDED = replace(FORMING, phase=RoundPhase.SUSPENDED)
SUCCEEDED = replace(ACTIVE, phase=RoundPhase.SUCCEEDED)
FAILED = replace(FORMING, phase=RoundPhase.FAILED)


def a(state: RendezvousState | None, **situation: Any) -> MemberState:
    return MemberState(me=ME, state=state, **situation)


def a_member(state: RendezvousState | None, workers: Workers = Workers.RUNNING, **situation: Any) -> MemberState:
    """Return a member that has started round 3."""
    return a(state, workers=workers, started=MINE, ready=3, **situation)


FETCHING, LOST = RestorePhase.FETCHING, RestorePhase.FAILED
RUN, STOP, DOWN, OVER, BAD = Workers.RUNNING, Workers.STOPPING, Workers.NONE, Workers.SUCCEEDED, Workers.FAILED


@pytest.mark.parametrize(
    ("situation", "step"),
    [
        pytest.param(a(None), WAIT, id="no state yet"),
        # an active round
        pytest.param(a(ACTIVE), Step(StepKind.START, group_rank=1), id="named, no workers run: start"),
        pytest.param(a_member(ACTIVE), WAIT, id="its workers run"),
        pytest.param(
            a(ACTIVE, started=(3, "other")), Step(StepKind.START, group_rank=1), id="the same round, another nonce"
        ),
        pytest.param(a(ACTIVE, started=(2, "x"), workers=RUN), Step(StepKind.STOP_FAST), id="older workers stop first"),
        pytest.param(a(ACTIVE, started=(2, "x"), workers=STOP), WAIT, id="the step waits for them"),
        pytest.param(
            a(ACTIVE, started=(2, "x"), workers=OVER),
            Step(StepKind.START, group_rank=1),
            id="workers that are done need no stop",
        ),
        pytest.param(a(ACTIVE_WITHOUT_ME), WAIT, id="a spare"),
        pytest.param(a_member(ACTIVE_WITHOUT_ME), Step(StepKind.STOP_FAST), id="released"),
        pytest.param(a_member(ACTIVE_WITHOUT_ME, DOWN), WAIT, id="released, nothing runs"),
        pytest.param(a_member(ACTIVE, DOWN), WAIT, id="a round is started only once"),
        pytest.param(a(ACTIVE, restore=RestorePhase.PREPARING), WAIT, id="the keeper gets to know the round first"),
        # a step to restore
        pytest.param(a(RESTORING, restore=RestorePhase.PREPARING), WAIT, id="also if it restores a step"),
        pytest.param(a(RESTORING, restore=FETCHING), WAIT, id="parts are fetched before the workers start"),
        pytest.param(
            a(RESTORING, restore=RestorePhase.COMPLETE),
            Step(StepKind.START, group_rank=1),
            id="all parts are here: start",
        ),
        pytest.param(
            a(RESTORING, restore=LOST),
            Step(StepKind.OPEN_RESTORE_FAILED),
            id="a step that cannot be restored ends the round",
        ),
        pytest.param(a(RESTORING, restore=LOST, settling=True), WAIT, id="after a wipe nothing is opened at once"),
        pytest.param(
            a(ACTIVE_WITHOUT_ME, has_listed_since=True), Step(StepKind.REPORT_LISTED), id="it may join from now on"
        ),
        pytest.param(a(FIRST, has_listed_since=True), Step(StepKind.REPORT_LISTED), id="round 1 waits for this"),
        pytest.param(
            a(FORMING, ready=4, has_listed_since=True), Step(StepKind.REPORT_LISTED), id="round 4 waits for this"
        ),
        pytest.param(
            a(FORMING, ready=3, has_listed_since=True), Step(StepKind.REPORT_READY), id="ready has the same record"
        ),
        pytest.param(a_member(ACTIVE, has_listed_since=True), WAIT, id="its next record is that of ready"),
        pytest.param(a(RESTORING), WAIT, id="a keeper that does not know the round yet is waited for"),
        pytest.param(
            a(RESTORING, restore=LOST, started=(2, "x"), workers=RUN),
            Step(StepKind.STOP_FAST),
            id="older workers stop first",
        ),
        pytest.param(a_member(RESTORING, restore=LOST), WAIT, id="workers that run are not stopped by a later loss"),
        pytest.param(a(replace(RESTORING, members=(OTHER,)), restore=LOST), WAIT, id="a spare restores nothing"),
        pytest.param(
            a(FORMING, restore=FETCHING), Step(StepKind.REPORT_READY), id="a fetch does not delay the barrier"
        ),
        pytest.param(
            a(RESTORING, restore=FETCHING, leave_requested=True),
            Step(StepKind.OPEN_LEAVING),
            id="a fetch delays no leave",
        ),
        pytest.param(
            a(ACTIVE, restore=LOST), Step(StepKind.START, group_rank=1), id="a round without such a step waits for none"
        ),
        # failures and success
        pytest.param(a_member(ACTIVE, BAD, unreported_failures=True), Step(StepKind.OPEN_FAILED), id="a worker failed"),
        pytest.param(a_member(ACTIVE, BAD), WAIT, id="a worker failed, and it is reported"),
        pytest.param(a_member(ACTIVE, OVER), Step(StepKind.REPORT_DONE), id="all exited 0"),
        pytest.param(a_member(ACTIVE, OVER, done_round=3), WAIT, id="all exited 0, and it is reported"),
        pytest.param(a_member(ACTIVE, OVER, done_round=2), Step(StepKind.REPORT_DONE), id="done before does not count"),
        # forming
        pytest.param(a_member(FORMING), Step(StepKind.STOP), id="a planned round: the user's grace"),
        pytest.param(a_member(FAILURE), Step(StepKind.STOP_FAST), id="after a failure: the short grace"),
        pytest.param(
            a_member(replace(FORMING, cause=Cause.NODE_LOST)),
            Step(StepKind.STOP_FAST),
            id="after a loss: the short grace",
        ),
        pytest.param(a_member(FAILURE, BAD), Step(StepKind.STOP_FAST), id="the rest of a failed group"),
        pytest.param(a_member(FORMING, STOP), WAIT, id="stopping"),
        pytest.param(a_member(FORMING, DOWN), Step(StepKind.REPORT_READY), id="stopped: ready"),
        pytest.param(a_member(FORMING, OVER), Step(StepKind.REPORT_READY), id="finished members take part again"),
        pytest.param(
            a_member(FAILURE, DOWN, unreported_failures=True),
            Step(StepKind.REPORT_LATE_FAILURES),
            id="failures before ready",
        ),
        pytest.param(a(FORMING, ready=4, started=MINE), WAIT, id="ready, and it is reported"),
        pytest.param(a(FORMING, ready=2), Step(StepKind.REPORT_READY), id="a spare reports it for each round"),
        pytest.param(a(FIRST), WAIT, id="an idle node is ready for the first round without a report"),
        pytest.param(
            a(FIRST, has_holdings=True),
            Step(StepKind.REPORT_READY),
            id="a node with parts in memory reports them with ready",
        ),
        pytest.param(a(FIRST, ready=1, has_holdings=True), WAIT, id="its parts are reported"),
        pytest.param(
            a(FAILURE),
            Step(StepKind.REPORT_READY),
            id="an idle node may have been a member unknowingly: it reports ready",
        ),
        # suspended
        pytest.param(a_member(SUSPENDED), Step(StepKind.STOP), id="suspended: the user's grace"),
        pytest.param(a_member(SUSPENDED, DOWN), WAIT, id="suspended, stopped"),
        # final states and deletion
        pytest.param(a(SUCCEEDED), Step(StepKind.EXIT, code=ExitCode.OK), id="succeeded"),
        pytest.param(a_member(SUCCEEDED, OVER, done_round=3), Step(StepKind.EXIT, code=ExitCode.OK), id="done: exits"),
        pytest.param(a_member(FAILED), Step(StepKind.STOP_FAST), id="failed: stop first"),
        pytest.param(a_member(FAILED, STOP), WAIT, id="failed: wait until they have stopped"),
        pytest.param(a_member(FAILED, DOWN), Step(StepKind.EXIT), id="failed: its root cause decides the code"),
        pytest.param(a(None, deleted=True, workers=RUN), Step(StepKind.STOP_FAST), id="deleted: stop first"),
        pytest.param(a(None, deleted=True), Step(StepKind.EXIT, code=ExitCode.JOB_DELETED), id="deleted"),
        pytest.param(
            a_member(SUCCEEDED, DOWN, leave_requested=True),
            Step(StepKind.EXIT, code=ExitCode.OK),
            id="the end before leaving",
        ),
    ],
)
def test_next_step(situation: MemberState, step: Step) -> None:
    assert next_step(situation) == step


@pytest.mark.parametrize(
    ("situation", "do"),
    [
        pytest.param(a(None), StepKind.REPORT_LEAVING, id="before there is a state"),
        pytest.param(a_member(ACTIVE), StepKind.OPEN_LEAVING, id="a member opens the next round"),
        pytest.param(a(ACTIVE), StepKind.OPEN_LEAVING, id="also one that has not started yet"),
        pytest.param(
            a_member(ACTIVE, BAD, unreported_failures=True), StepKind.OPEN_LEAVING, id="also one that just failed"
        ),
        pytest.param(a_member(ACTIVE, OVER, done_round=3), StepKind.REPORT_LEAVING, id="a done member opens no round"),
        pytest.param(
            a_member(ACTIVE, OVER, done_round=2), StepKind.OPEN_LEAVING, id="done in an earlier round is not done"
        ),
        pytest.param(a_member(ACTIVE_WITHOUT_ME), StepKind.REPORT_LEAVING, id="a spare opens no round"),
        pytest.param(a_member(FORMING), StepKind.REPORT_LEAVING, id="a round is forming already"),
        pytest.param(a_member(SUSPENDED), StepKind.REPORT_LEAVING, id="suspended"),
    ],
)
def test_a_leaving_node_reports_it_before_it_stops_workers(situation: MemberState, do: StepKind) -> None:
    assert next_step(replace(situation, leave_requested=True)) == Step(do)


@pytest.mark.parametrize("state", [None, ACTIVE, FORMING, FAILURE, SUSPENDED, ACTIVE_WITHOUT_ME])
def test_a_leaving_node_stops_its_workers_within_the_users_grace_and_exits(state: RendezvousState | None) -> None:
    leaving = a_member(state, leave_requested=True, leave_reported=True)
    steps = [next_step(replace(leaving, workers=workers)) for workers in (RUN, BAD, STOP, DOWN, OVER)]
    assert [step.kind for step in steps] == [
        StepKind.STOP,
        StepKind.STOP,
        StepKind.WAIT,
        StepKind.LEAVE,
        StepKind.LEAVE,
    ]


def test_without_an_answer_of_etcd_a_leaving_node_stops_its_workers_and_repeats_the_report_meanwhile() -> None:
    leaving = a_member(ACTIVE, leave_requested=True, leave_tried=True)
    steps = [next_step(replace(leaving, workers=workers)) for workers in (RUN, BAD, STOP, DOWN, OVER)]
    assert [step.kind for step in steps] == [
        StepKind.STOP,
        StepKind.STOP,
        StepKind.OPEN_LEAVING,
        StepKind.LEAVE,
        StepKind.LEAVE,
    ]


def a_leaver(state: RendezvousState | None, **situation: Any) -> MemberState:
    """Return a node that has a keeper, has reported that it leaves, and whose workers have stopped."""
    return replace(a_member(state, DOWN, leave_requested=True, leave_reported=True, has_keeper=True), **situation)


@pytest.mark.parametrize(
    ("situation", "step"),
    [
        pytest.param(a_leaver(FORMING), Step(StepKind.REPORT_READY), id="its last steps are reported first"),
        pytest.param(a_leaver(FORMING, lingers=True), Step(StepKind.REPORT_READY), id="also if others need them"),
        pytest.param(a_leaver(FORMING, ready=4, lingers=True), WAIT, id="others may fetch them"),
        pytest.param(a_leaver(FORMING, ready=4), Step(StepKind.LEAVE), id="no other node needs them"),
        pytest.param(a_leaver(ACTIVE_WITHOUT_ME, lingers=True), WAIT, id="the next round fetches them"),
        pytest.param(a_leaver(ACTIVE_WITHOUT_ME), Step(StepKind.LEAVE), id="the next round has them"),
        pytest.param(a_leaver(SUSPENDED), Step(StepKind.LEAVE), id="a suspended job gives its memory up"),
        pytest.param(a_leaver(None, lingers=True), Step(StepKind.LEAVE), id="a job that never began has no steps"),
        pytest.param(a_leaver(FORMING, workers=STOP), WAIT, id="workers may still publish"),
        pytest.param(
            a_leaver(FORMING, leave_reported=False, leave_tried=True),
            Step(StepKind.LEAVE),
            id="without an answer of etcd no other node knows of its steps",
        ),
        pytest.param(
            a_leaver(FORMING, leave_reported=False, leave_tried=True, may_still_report=True),
            Step(StepKind.REPORT_LEAVING),
            id="the report is tried again while there is time",
        ),
        pytest.param(
            a_leaver(ACTIVE, leave_reported=False, leave_tried=True, may_still_report=True),
            Step(StepKind.OPEN_LEAVING),
            id="also the one that opens a round",
        ),
        pytest.param(
            a_leaver(SUSPENDED, leave_reported=False, leave_tried=True, persists=True, has_sealed=True, lingers=True),
            WAIT,
            id="a drain does not end without an answer of etcd",
        ),
        pytest.param(a_leaver(FORMING, has_keeper=False, lingers=True), Step(StepKind.LEAVE), id="it has no keeper"),
    ],
)
def test_a_leaving_node_with_a_keeper_stays_as_long_as_others_need_its_steps(
    situation: MemberState, step: Step
) -> None:
    assert next_step(situation) == step


def a_persister(state: RendezvousState, workers: Workers = DOWN, **situation: Any) -> MemberState:
    """Return a member whose last steps go to a shared directory."""
    return a_member(state, workers, has_keeper=True, persists=True, **situation)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (SUSPENDED, WAIT),
        (SUCCEEDED, Step(StepKind.EXIT, code=ExitCode.OK)),
        (FAILED, Step(StepKind.EXIT, code=None)),
    ],
)
def test_a_node_writes_its_last_steps_before_the_job_ends_or_is_suspended(state: RendezvousState, end: Step) -> None:
    assert next_step(a_persister(state, RUN)).kind in {StepKind.STOP, StepKind.STOP_FAST}
    assert next_step(a_persister(state)) == Step(StepKind.REPORT_SEALED)
    assert next_step(a_persister(state, has_sealed=True, lingers=True)) == WAIT
    assert next_step(a_persister(state, has_sealed=True)) == end
    assert next_step(replace(a_persister(state), persists=False)) == end


def test_a_node_that_leaves_a_suspended_job_writes_its_last_steps_first() -> None:
    leaver = a_persister(SUSPENDED, leave_requested=True, leave_reported=True)
    assert next_step(leaver) == Step(StepKind.REPORT_SEALED)
    assert next_step(replace(leaver, has_sealed=True, lingers=True)) == WAIT
    assert next_step(replace(leaver, has_sealed=True)) == Step(StepKind.LEAVE)
