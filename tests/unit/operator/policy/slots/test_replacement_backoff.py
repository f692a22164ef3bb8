"""Slots whose pods come and go: who waits for the next one, for how long, and what ends it."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod
from elasticjob_operator.policy.slots.replacement import PodDecision, decide_pods
from elasticjob_operator.policy.slots.replacement_backoff import (
    FREE_REPLACEMENTS,
    MAX_BACKOFF_S,
    REASON,
    STABLE_AFTER_S,
    backing_off,
    backoff_s,
    update_histories,
)
from elasticjob_operator.policy.status.pending_reason import first_pending_reason
from testing.builders import NOW_S, ago, job, pod, record, seen, spec, view

Courses = dict[int, SlotHistory]
OVER = [PodState.ABSENT, PodState.TERMINATING, PodState.FAILED, PodState.COMPLETED]


def owner(number: int, standing: PodState, **fields: Any) -> SlotPod:
    name = f"j-0-{number}"
    return SlotPod(name, standing, None if standing is PodState.ABSENT else pod(0, name=name, **fields))


def gone(times: int, *, ran_s: float = 0.0, before: Courses | None = None, said: str = "") -> tuple[Courses, float]:
    """So many pods of slot 0 have run for `ran_s` and gone, each replaced at once; the courses then, and when."""
    now_s, courses = NOW_S, before
    for number in range(times):
        courses = update_histories(courses, {0: owner(number, PodState.LIVE)}, now_s, now_s=now_s, events=said)
        now_s += ran_s
        courses = update_histories(courses, {0: owner(number, PodState.ABSENT)}, now_s, now_s=now_s, events=said)
    assert courses is not None
    return courses, now_s


@pytest.mark.parametrize(
    ("brief", "expected_s"),
    [
        (0, 0.0),
        (FREE_REPLACEMENTS, 0.0),
        (FREE_REPLACEMENTS + 1, 1.0),
        (FREE_REPLACEMENTS + 2, 2.0),
        (FREE_REPLACEMENTS + 3, 4.0),
        (FREE_REPLACEMENTS + 10, MAX_BACKOFF_S),
        (10**6, 300.0),
    ],
)
def test_the_first_ones_are_replaced_at_once_and_each_later_one_waits_twice_as_long(
    brief: int, expected_s: float
) -> None:
    assert backoff_s(brief) == expected_s


def test_a_pod_that_never_ran_or_went_within_seconds_makes_the_row_longer() -> None:
    courses, now_s = gone(FREE_REPLACEMENTS)
    assert not backing_off(courses, now_s)
    courses, now_s = gone(FREE_REPLACEMENTS + 2, ran_s=STABLE_AFTER_S - 1.0)
    assert backing_off(courses, now_s) == {0: now_s + 2.0}


def test_a_pod_that_has_run_for_a_while_ends_the_row() -> None:
    courses, _ = gone(FREE_REPLACEMENTS + 5)
    courses, now_s = gone(1, ran_s=STABLE_AFTER_S, before=courses)
    assert courses[0].short_lived == 0
    assert not backing_off(courses, now_s)


def test_time_as_a_pending_pod_is_no_time_that_it_ran() -> None:
    young = update_histories(None, {0: owner(0, PodState.LIVE, phase="Pending")}, NOW_S, now_s=NOW_S, events="")
    courses = update_histories(
        young, {0: owner(0, PodState.TERMINATING)}, NOW_S + 900.0, now_s=NOW_S + 900.0, events=""
    )
    assert courses[0].short_lived == 1


@pytest.mark.parametrize("standing", OVER)
def test_however_a_pod_went_it_is_counted_once(standing: PodState) -> None:
    courses: Courses | None = None
    for after_s in range(5):
        courses = update_histories(courses, {0: owner(0, standing)}, NOW_S + after_s, now_s=NOW_S + after_s, events="")
    assert courses == {0: SlotHistory(pod="j-0-0", short_lived=1, ended_at_s=NOW_S, ended_time_s=NOW_S)}


@pytest.mark.parametrize("standing", [standing for standing in PodState if standing not in OVER])
def test_a_pod_that_comes_or_is_there_is_not_counted(standing: PodState) -> None:
    courses = update_histories(None, {0: owner(0, standing)}, NOW_S, now_s=NOW_S, events="")
    assert courses[0].short_lived == 0


def test_a_pod_that_is_replaced_while_it_runs_ends_the_row_if_it_has_lasted_and_counts_for_nothing_if_not() -> None:
    courses, now_s = gone(FREE_REPLACEMENTS)
    live = update_histories(courses, {0: owner(90, PodState.LIVE)}, now_s, now_s=now_s, events="")
    for ran_s, brief in ((1.0, FREE_REPLACEMENTS), (STABLE_AFTER_S, 0)):
        assert (
            update_histories(live, {0: owner(91, PodState.PENDING_CREATE)}, now_s + ran_s, now_s=now_s, events="")[
                0
            ].short_lived
            == brief
        )


def test_a_pod_that_ran_before_this_process_began_has_lasted() -> None:
    live = update_histories(
        None, {0: owner(0, PodState.LIVE, running_since_s=NOW_S - STABLE_AFTER_S)}, NOW_S, now_s=NOW_S, events=REASON
    )
    assert update_histories(live, {0: owner(0, PodState.FAILED)}, NOW_S, now_s=NOW_S, events="")[0].short_lived == 0


def test_a_slot_that_is_no_more_is_forgotten() -> None:
    courses, now_s = gone(FREE_REPLACEMENTS + 5)
    assert update_histories(courses, {}, now_s, now_s=now_s, events=REASON) == {}
    assert gone(1, before={}, said=REASON)[0][0].short_lived == 1


def test_a_new_process_goes_on_with_the_row_of_which_the_status_tells() -> None:
    courses, now_s = gone(1, said=REASON)
    assert backing_off(courses, now_s) == {0: now_s + 1.0}


def test_a_slot_that_waits_keeps_its_pods_name_unless_its_pod_counts() -> None:
    failed = pod(2, phase="Failed", exit_code=1)
    slots = {
        0: SlotPod("a", PodState.ABSENT),
        1: SlotPod("b", PodState.ABSENT),
        2: SlotPod(failed.name, PodState.FAILED, failed),
    }
    judged = decide_pods(spec(), slots, retained=frozenset(), lost=frozenset(), later=frozenset({1, 2}))
    assert judged.by_slot == {0: PodDecision.REPLACE, 1: PodDecision.KEEP, 2: PodDecision.REPLACE_COUNTED}


def test_it_is_said_which_slot_waits_until_when_and_why() -> None:
    evicted = pod(0, phase="Failed", reason="Evicted", is_disrupted=True, message="disk pressure")
    courses = {
        0: SlotHistory(pod=evicted.name, short_lived=FREE_REPLACEMENTS + 3, ended_at_s=NOW_S, ended_time_s=NOW_S)
    }
    trouble = first_pending_reason(
        seen(job(), view(0, spec=record(0), nodes={}), evicted, job_state=JobState(slot_histories=courses))
    )
    assert trouble is not None
    assert trouble.reason == REASON
    assert trouble.message == (
        f"slot 0 waits for its next pod until {ago(-4.0)}: none of its last 7 pods ran for 10 s; "
        "the last one, j-0-a: it was evicted (Evicted): disk pressure"
    )


def test_of_a_slot_that_waits_no_more_nothing_is_said() -> None:
    courses = {0: SlotHistory(pod="j-0-a", short_lived=FREE_REPLACEMENTS, ended_at_s=NOW_S)}
    assert first_pending_reason(seen(job(), view(0, nodes={}), job_state=JobState(slot_histories=courses))) is None
