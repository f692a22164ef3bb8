"""A job's life as rounds, gaps and failures."""

import pytest

from elasticjob_cli.views.job_history import HistoryEntry, job_history, parse_slots
from tests.unit.cli.recorded import NOW_S, a_job, at, two_rounds


def moment(offset_s: float, reason: str, message: str = "", *, warning: bool = False) -> HistoryEntry:
    return HistoryEntry(NOW_S + offset_s, reason, message, warning=warning)


def test_rounds_of_the_status_are_told_with_who_took_part_and_the_gaps_between() -> None:
    told = job_history(a_job(rounds=two_rounds()), [], now_s=NOW_S)
    assert [(each.number, each.slots) for each in told.rounds] == [(1, (0, 1)), (2, (0, 1, 2))]
    assert told.gaps() == pytest.approx([10.0, 0.1])
    assert told.in_rounds_s == pytest.approx(50.0 + 39.9)
    assert told.exact


def test_a_job_without_rounds_in_its_status_gets_them_from_its_events() -> None:
    moments = [
        moment(-90, "RendezvousCompleted", "round 1: 2 nodes, 4 workers"),
        moment(-40, "WorkerFailed", "rank 3 on digits-1-abcde was killed by SIGSEGV in round 1", warning=True),
        moment(-38, "RendezvousCompleted", "round 2: 1 node, 2 workers"),
    ]
    told = job_history(a_job(), moments, now_s=NOW_S)
    first, second = told.rounds
    assert (first.nodes, first.workers, first.end_s) == (2, 4, NOW_S - 40)
    assert (second.nodes, second.message.partition(" on ")[0]) == (1, "rank 3")
    assert not told.exact


def test_what_an_event_says_of_the_cause_counts_more_than_what_was_said_before() -> None:
    moments = [
        moment(-9, "ScaledUp", "from 1 to 2 nodes"),
        moment(-8, "RendezvousCompleted", "round 1: 2 nodes, 4 workers; after: digits-1 joined"),
    ]
    assert job_history(a_job(), moments, now_s=NOW_S).rounds[0].message == "digits-1 joined"


def test_the_story_of_a_job_that_has_ended_ends_with_it() -> None:
    job = a_job(phase="Failed", rounds=two_rounds(), completionTime=at(-10))
    told = job_history(job, [], now_s=NOW_S)
    assert (told.end_s, told.live, told.end_of(told.rounds[-1])) == (NOW_S - 10, False, NOW_S - 10)


def test_a_failure_is_known_by_what_it_opened_when_its_event_is_gone() -> None:
    told = job_history(a_job(rounds=two_rounds()), [], now_s=NOW_S)
    assert told.failures() == [(NOW_S - 40, "WorkerFailed: rank 3 was killed by SIGSEGV")]


def test_a_failure_with_an_event_counts_once_and_another_event_counts_too() -> None:
    moments = [moment(-39.5, "WorkerFailed", warning=True), moment(-5, "Stalled", "silent", warning=True)]
    told = job_history(a_job(rounds=two_rounds()), moments, now_s=NOW_S)
    assert told.failures()[1:] == [(NOW_S - 5, "Stalled: silent")]


def test_a_job_of_which_nothing_is_known_has_a_story_too() -> None:
    told = job_history({"metadata": {"name": "digits"}}, [], now_s=NOW_S)
    assert (told.phase, told.rounds, told.in_rounds_s) == ("Pending", (), 0)


@pytest.mark.parametrize(
    ("text", "slots"), [("", ()), ("3", (3,)), ("0-2,7,5", (0, 1, 2, 7, 5)), ("0-1,...", (0, 1)), ("x", ())]
)
def test_slots_are_read_in_rank_order(text: str, slots: tuple[int, ...]) -> None:
    assert parse_slots(text) == slots
