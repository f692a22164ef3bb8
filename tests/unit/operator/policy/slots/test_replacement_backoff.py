"""Slots whose pods come and go: who waits for the next one, for how long, and what ends it."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.model.slot_history import Course
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.replacement import Fate, fates
from elasticjob_operator.policy.slots.replacement_backoff import (
    FREE,
    HELD_BACK,
    LASTED_S,
    LONGEST_S,
    courses_of,
    wait_s,
    waiting,
)
from elasticjob_operator.policy.status.pending_reason import first_trouble
from testing.builders import NOW_S, ago, job, pod, record, seen, spec, view

Courses = dict[int, Course]
OVER = [Standing.GONE, Standing.TERMINATING, Standing.FAILED, Standing.COMPLETED]


def owner(number: int, standing: Standing, **fields: Any) -> Owner:
    name = f"j-0-{number}"
    return Owner(name, standing, None if standing is Standing.GONE else pod(0, name=name, **fields))


def gone(times: int, *, ran_s: float = 0.0, before: Courses | None = None, said: str = "") -> tuple[Courses, float]:
    """So many pods of slot 0 have run for `ran_s` and gone, each replaced at once; the courses then, and when."""
    now_s, courses = NOW_S, before
    for number in range(times):
        courses = courses_of(courses, {0: owner(number, Standing.LIVE)}, now_s, now_s=now_s, said=said)
        now_s += ran_s
        courses = courses_of(courses, {0: owner(number, Standing.GONE)}, now_s, now_s=now_s, said=said)
    assert courses is not None
    return courses, now_s


@pytest.mark.parametrize(
    ("brief", "expected_s"),
    [(0, 0.0), (FREE, 0.0), (FREE + 1, 1.0), (FREE + 2, 2.0), (FREE + 3, 4.0), (FREE + 10, LONGEST_S), (10**6, 300.0)],
)
def test_the_first_ones_are_replaced_at_once_and_each_later_one_waits_twice_as_long(
    brief: int, expected_s: float
) -> None:
    assert wait_s(brief) == expected_s


def test_a_pod_that_never_ran_or_went_within_seconds_makes_the_row_longer() -> None:
    courses, now_s = gone(FREE)
    assert not waiting(courses, now_s)
    courses, now_s = gone(FREE + 2, ran_s=LASTED_S - 1.0)
    assert waiting(courses, now_s) == {0: now_s + 2.0}


def test_a_pod_that_has_run_for_a_while_ends_the_row() -> None:
    courses, _ = gone(FREE + 5)
    courses, now_s = gone(1, ran_s=LASTED_S, before=courses)
    assert courses[0].brief == 0
    assert not waiting(courses, now_s)


def test_time_as_a_pending_pod_is_no_time_that_it_ran() -> None:
    young = courses_of(None, {0: owner(0, Standing.LIVE, phase="Pending")}, NOW_S, now_s=NOW_S, said="")
    courses = courses_of(young, {0: owner(0, Standing.TERMINATING)}, NOW_S + 900.0, now_s=NOW_S + 900.0, said="")
    assert courses[0].brief == 1


@pytest.mark.parametrize("standing", OVER)
def test_however_a_pod_went_it_is_counted_once(standing: Standing) -> None:
    courses: Courses | None = None
    for after_s in range(5):
        courses = courses_of(courses, {0: owner(0, standing)}, NOW_S + after_s, now_s=NOW_S + after_s, said="")
    assert courses == {0: Course(pod="j-0-0", brief=1, over_at_s=NOW_S, over_time_s=NOW_S)}


@pytest.mark.parametrize("standing", [standing for standing in Standing if standing not in OVER])
def test_a_pod_that_comes_or_is_there_is_not_counted(standing: Standing) -> None:
    courses = courses_of(None, {0: owner(0, standing)}, NOW_S, now_s=NOW_S, said="")
    assert courses[0].brief == 0


def test_a_pod_that_is_replaced_while_it_runs_ends_the_row_if_it_has_lasted_and_counts_for_nothing_if_not() -> None:
    courses, now_s = gone(FREE)
    live = courses_of(courses, {0: owner(90, Standing.LIVE)}, now_s, now_s=now_s, said="")
    for ran_s, brief in ((1.0, FREE), (LASTED_S, 0)):
        assert (
            courses_of(live, {0: owner(91, Standing.TO_CREATE)}, now_s + ran_s, now_s=now_s, said="")[0].brief == brief
        )


def test_a_pod_that_ran_before_this_process_began_has_lasted() -> None:
    live = courses_of(
        None, {0: owner(0, Standing.LIVE, running_since_s=NOW_S - LASTED_S)}, NOW_S, now_s=NOW_S, said=HELD_BACK
    )
    assert courses_of(live, {0: owner(0, Standing.FAILED)}, NOW_S, now_s=NOW_S, said="")[0].brief == 0


def test_a_slot_that_is_no_more_is_forgotten() -> None:
    courses, now_s = gone(FREE + 5)
    assert courses_of(courses, {}, now_s, now_s=now_s, said=HELD_BACK) == {}
    assert gone(1, before={}, said=HELD_BACK)[0][0].brief == 1


def test_a_new_process_goes_on_with_the_row_of_which_the_status_tells() -> None:
    courses, now_s = gone(1, said=HELD_BACK)
    assert waiting(courses, now_s) == {0: now_s + 1.0}


def test_a_slot_that_waits_keeps_its_pods_name_unless_its_pod_counts() -> None:
    failed = pod(2, phase="Failed", exit_code=1)
    slots = {0: Owner("a", Standing.GONE), 1: Owner("b", Standing.GONE), 2: Owner(failed.name, Standing.FAILED, failed)}
    judged = fates(spec(), slots, kept=frozenset(), lost=frozenset(), later=frozenset({1, 2}))
    assert judged.by_slot == {0: Fate.REPLACE, 1: Fate.KEEP, 2: Fate.REPLACE_COUNTED}


def test_it_is_said_which_slot_waits_until_when_and_why() -> None:
    evicted = pod(0, phase="Failed", reason="Evicted", disrupted=True, message="disk pressure")
    courses = {0: Course(pod=evicted.name, brief=FREE + 3, over_at_s=NOW_S, over_time_s=NOW_S)}
    trouble = first_trouble(seen(job(), view(0, spec=record(0), nodes={}), evicted, ledger=Ledger(courses=courses)))
    assert trouble is not None
    assert trouble.reason == HELD_BACK
    assert trouble.message == (
        f"slot 0 waits for its next pod until {ago(-4.0)}: 7 pods in a row went before they had run for 10 s; "
        "the last, j-0-a: it was evicted (Evicted): disk pressure"
    )


def test_of_a_slot_that_waits_no_more_nothing_is_said() -> None:
    courses = {0: Course(pod="j-0-a", brief=FREE, over_at_s=NOW_S)}
    assert first_trouble(seen(job(), view(0, nodes={}), ledger=Ledger(courses=courses))) is None
