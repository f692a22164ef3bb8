"""The rounds of a job: opened, active, ended; and unknown times if the first observation is late."""

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_operator.ui.round_history import MAX_ROUNDS, RoundHistory
from tests.unit.operator.ui.page_states import world


def test_a_round_forms_becomes_active_and_ends_with_the_next() -> None:
    history = RoundHistory()
    history.record(world(1, RoundPhase.FORMING), 10.0)
    history.record(world(1), 11.0)
    history.record(world(2, RoundPhase.FORMING, cause=Cause.WORKER_FAILED), 20.0)
    first, second = history.rounds
    assert (first.opened_s, first.active_s, first.ended_s, first.end) == (10.0, 11.0, 20.0, "forming")
    assert (first.nodes, first.workers) == (2, 16)
    assert (second.cause, second.active_s, second.end) == ("WorkerFailed", None, "")


def test_a_repeated_state_changes_nothing() -> None:
    history = RoundHistory()
    for at_s in (1.0, 2.0, 3.0):
        history.record(world(1), at_s)
    assert [(each.active_s, each.ended_s) for each in history.rounds] == [(1.0, None)]


def test_the_status_has_the_start_of_a_round_that_was_active_when_first_observed() -> None:
    history = RoundHistory()
    history.record(world(7), 100.0, active_since_s=40.0)
    assert (history.rounds[0].opened_s, history.rounds[0].active_s) == (None, 40.0)


def test_a_round_first_observed_as_active_ends_the_one_before() -> None:
    history = RoundHistory()
    history.record(world(1), 1.0)
    history.record(world(2), 5.0, active_since_s=1.0)
    assert [(each.active_s, each.ended_s) for each in history.rounds] == [(1.0, 5.0), (5.0, None)]


def test_the_end_of_a_job_ends_its_round_once() -> None:
    history = RoundHistory()
    history.record(world(1), 1.0)
    history.record(world(1, RoundPhase.SUCCEEDED), 9.0)
    history.record(world(1, RoundPhase.SUCCEEDED), 11.0)
    assert [(each.ended_s, each.end) for each in history.rounds] == [(9.0, "succeeded")]


def test_only_the_last_rounds_remain() -> None:
    history = RoundHistory()
    for number in range(1, MAX_ROUNDS + 10):
        history.record(world(number), float(number))
    assert (len(history.rounds), history.rounds[0].number) == (MAX_ROUNDS, 10)


def test_an_unreadable_record_of_workers_counts_none() -> None:
    history = RoundHistory()
    history.record(world(1, nodes=1).__class__(state=RoundPhase.ACTIVE, round=1, nonce="n", nprocs="ax1"), 1.0)
    assert history.rounds[0].workers == 0
