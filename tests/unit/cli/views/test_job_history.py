"""The history of a job as rounds, gaps and failures."""

import pytest

from elasticjob_cli.views.job_history import HistoryEntry, job_history
from tests.unit.cli.recorded import NOW_S, a_job, at, two_rounds


def history_entry(offset_s: float, reason: str, message: str = "", *, warning: bool = False) -> HistoryEntry:
    return HistoryEntry(NOW_S + offset_s, reason, message, warning=warning)


def test_rounds_of_the_status_have_their_slots_and_the_gaps_between() -> None:
    history = job_history(a_job(rounds=two_rounds()), [], now_s=NOW_S)
    assert [(each.number, each.slots) for each in history.rounds] == [(1, (0, 1)), (2, (0, 1, 2))]
    assert history.gaps() == pytest.approx([10.0, 0.1])
    assert history.in_rounds_s == pytest.approx(50.0 + 39.9)


def test_the_history_of_an_ended_job_ends_with_it() -> None:
    job = a_job(phase="Failed", rounds=two_rounds(), completionTime=at(-10))
    history = job_history(job, [], now_s=NOW_S)
    assert (history.end_s, history.live, history.end_of(history.rounds[-1])) == (NOW_S - 10, False, NOW_S - 10)


def test_a_failure_without_its_event_is_known_by_the_round_that_it_opened() -> None:
    history = job_history(a_job(rounds=two_rounds()), [], now_s=NOW_S)
    assert history.failures() == [(NOW_S - 40, "WorkerFailed: rank 3 was killed by SIGSEGV")]


def test_a_failure_with_an_event_counts_once_and_another_event_counts_too() -> None:
    entries = [history_entry(-39.5, "WorkerFailed", warning=True), history_entry(-5, "Stalled", "silent", warning=True)]
    history = job_history(a_job(rounds=two_rounds()), entries, now_s=NOW_S)
    assert history.failures()[1:] == [(NOW_S - 5, "Stalled: silent")]


@pytest.mark.parametrize("offset_s", [-41, -39.5, -20])
def test_a_failure_counts_once_however_late_its_event_is(offset_s: float) -> None:
    history = job_history(
        a_job(rounds=two_rounds()), [history_entry(offset_s, "WorkerFailed", warning=True)], now_s=NOW_S
    )
    assert history.failures() == [(NOW_S - 40, "WorkerFailed: rank 3 was killed by SIGSEGV")]


def test_an_event_of_another_reason_is_another_failure() -> None:
    history = job_history(a_job(rounds=two_rounds()), [history_entry(-39.5, "NodeLost", "n1")], now_s=NOW_S)
    assert history.failures()[1:] == [(NOW_S - 39.5, "NodeLost: n1")]


def test_a_job_without_a_status_has_a_history() -> None:
    history = job_history({"metadata": {"name": "digits"}}, [], now_s=NOW_S)
    assert (history.phase, history.rounds, history.in_rounds_s) == ("Pending", (), 0)
