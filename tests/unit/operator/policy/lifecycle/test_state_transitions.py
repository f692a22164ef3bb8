"""The rendezvous states that the operator writes: the fields that each keeps and those that it clears."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from elasticjob_api.constants import FailedReason
from elasticjob_api.job_failure import JobFailure
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.policy.lifecycle import state_transitions
from testing.builders import active, member, membership, record, state, view

COUNTED = active(0, 1, round=4, restarts=2, node_losses=1, restart_id="r1", master="10.0.0.1:29500", roles="default*2")
FAILURE = JobFailure(FailedReason.DEADLINE, "too long")
Write = Callable[[RendezvousState], RendezvousState]
WRITES: dict[str, Write] = {
    "suspended": lambda before: state_transitions.suspended_state(before, "n2"),
    "resumed": lambda before: state_transitions.resumed_state(before, "n2"),
    "succeeded": lambda before: state_transitions.succeeded_state(before, "n2"),
    "failed": lambda before: state_transitions.failed_state(before, record(0, 1), FAILURE, "n2"),
}
each_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


@each_write
def test_every_write_has_a_new_nonce(write: Write) -> None:
    assert write(COUNTED).nonce == "n2"


@each_write
def test_every_write_keeps_the_counters_of_the_rounds(write: Write) -> None:
    after = write(COUNTED)
    assert (after.restarts, after.node_losses, after.restart_id) == (2, 1, "r1")


@each_write
def test_every_write_keeps_what_kept_steps_belong_to(write: Write) -> None:
    after = write(replace(COUNTED, run="0badcafe", history="2.0000000a.90", shift="3"))
    assert (after.run, after.shift) == ("0badcafe", "3")
    assert after.kept_history().is_alive(KeptStep(Lineage(2, "0000000a"), 90, 4))


@each_write
def test_no_write_has_a_step_to_restore_because_the_operator_starts_no_round(write: Write) -> None:
    after = write(replace(COUNTED, run="0badcafe", restore="2.0000000a.90.4", sources="0-3:0"))
    assert (after.restore, after.sources) == ("", "")


def test_a_job_that_resumes_descends_from_the_round_that_was_suspended() -> None:
    running = replace(COUNTED, nonce="0000000b", run="0badcafe", history="2.0000000a.90")
    resumed = state_transitions.resumed_state(state_transitions.suspended_state(running, "n2"), "n3")
    assert resumed.history == "4.0000000b.*,2.0000000a.90"


@each_write
def test_no_write_has_a_history_while_keep_is_off(write: Write) -> None:
    assert (write(COUNTED).run, write(COUNTED).history) == ("", "")


@each_write
def test_no_write_has_members_because_the_operator_starts_no_round(write: Write) -> None:
    after = write(COUNTED)
    assert (after.members, after.master, after.nprocs, after.roles) == ((), "", "", "")


@each_write
def test_round_and_phase_never_go_back(write: Write) -> None:
    before = state(RoundPhase.SUSPENDED, round=4) if write is WRITES["resumed"] else COUNTED
    assert write(before).order > before.order


def test_a_suspension_keeps_the_round() -> None:
    after = state_transitions.suspended_state(COUNTED, "n2")
    assert (after.phase, after.round, after.cause) == (RoundPhase.SUSPENDED, 4, Cause.SUSPENDED)


def test_a_resume_opens_the_next_round_with_a_verdict() -> None:
    after = state_transitions.resumed_state(state(RoundPhase.SUSPENDED, round=4, loss_grace_spent=True), "n2")
    assert (after.phase, after.round, after.cause) == (RoundPhase.FORMING, 5, Cause.RESUMED)
    assert (after.has_verdict, after.loss_grace_spent) == (True, False)


def test_success_keeps_the_round() -> None:
    after = state_transitions.succeeded_state(state(RoundPhase.SUSPENDED, round=4), "n2")
    assert (after.phase, after.round, after.cause) == (RoundPhase.SUCCEEDED, 4, Cause.SUCCEEDED)


def test_the_operators_verdict_has_its_reason_in_the_message() -> None:
    after = state_transitions.failed_state(COUNTED, record(0, 1), FAILURE, "n2")
    assert (after.phase, after.round, after.cause) == (RoundPhase.FAILED, 4, Cause.OPERATOR)
    assert after.message == "DeadlineExceeded: too long"


def test_a_failed_job_without_a_state_gets_its_first_and_last_one() -> None:
    after = state_transitions.failed_state(None, record(0), FAILURE, "n2")
    assert (after.phase, after.round, after.restarts) == (RoundPhase.FAILED, 1, 0)


def test_after_a_wipe_a_verdict_continues_the_counts_of_the_status() -> None:
    after = state_transitions.failed_state(None, record(0, first_round=1004, first_restarts=2), FAILURE, "n2")
    assert (after.round, after.restarts) == (1004, 2)


def completions(*slots: int, round_: int = 1) -> dict[tuple[int, int], Member]:
    return {(round_, slot): member(slot) for slot in slots}


def test_a_suspended_job_whose_members_have_all_finished_has_succeeded() -> None:
    at = view(state=state(RoundPhase.SUSPENDED), membership=membership(0, 1), completions=completions(0, 1))
    assert state_transitions.finished_before_suspension(at)


@pytest.mark.parametrize(
    "at",
    [
        view(state=state(RoundPhase.SUSPENDED), membership=membership(0, 1), completions=completions(0)),
        view(state=state(RoundPhase.SUSPENDED), membership=membership(0, 1)),
        view(
            state=state(RoundPhase.SUSPENDED, round=2),
            membership=membership(0, 1),
            completions=completions(0, 1, round_=2),
        ),
        view(state=state(RoundPhase.SUSPENDED), membership=membership(0), completions={(1, 0): Member(0, "another")}),
        view(state=state(RoundPhase.SUSPENDED), membership=membership()),
        view(state=state(RoundPhase.SUSPENDED), completions=completions(0, 1)),
        view(state=active(0, 1), membership=membership(0, 1), completions=completions(0, 1)),
        view(membership=membership(0, 1), completions=completions(0, 1)),
    ],
    ids=[
        "one unfinished",
        "all unfinished",
        "old round",
        "other session",
        "no member",
        "unknown",
        "not suspended",
        "no state",
    ],
)
def test_any_other_job_has_something_to_resume(at: RendezvousView) -> None:
    assert not state_transitions.finished_before_suspension(at)
