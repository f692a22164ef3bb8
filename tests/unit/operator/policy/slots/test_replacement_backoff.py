"""Slots whose pods repeatedly end soon: the wait for the next pod, its length and its end."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.model.slot_pod import PodState, SlotPod
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

Histories = dict[int, SlotHistory]
ENDED = [PodState.ABSENT, PodState.TERMINATING, PodState.FAILED, PodState.COMPLETED]


def owner(number: int, state: PodState, **fields: Any) -> SlotPod:
    name = f"j-0-{number}"
    return SlotPod(name, state, None if state is PodState.ABSENT else pod(0, name=name, **fields))


def after_short_pods(
    times: int, *, ran_s: float = 0.0, before: Histories | None = None, reason: str = ""
) -> tuple[Histories, float]:
    """Run and end `times` pods of slot 0, each replaced at once; return the histories and the time after it."""
    now_s, histories = NOW_S, before
    for number in range(times):
        histories = update_histories(
            histories, {0: owner(number, PodState.LIVE)}, now_s, now_s=now_s, status_reason=reason
        )
        now_s += ran_s
        histories = update_histories(
            histories, {0: owner(number, PodState.ABSENT)}, now_s, now_s=now_s, status_reason=reason
        )
    assert histories is not None
    return histories, now_s


@pytest.mark.parametrize(
    ("short_lived", "expected_s"),
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
def test_the_first_pods_are_replaced_at_once_and_each_later_one_waits_twice_as_long(
    short_lived: int, expected_s: float
) -> None:
    assert backoff_s(short_lived) == expected_s


def test_a_pod_that_never_ran_or_ended_within_seconds_is_short_lived() -> None:
    histories, now_s = after_short_pods(FREE_REPLACEMENTS)
    assert not backing_off(histories, now_s)
    histories, now_s = after_short_pods(FREE_REPLACEMENTS + 2, ran_s=STABLE_AFTER_S - 1.0)
    assert backing_off(histories, now_s) == {0: now_s + 2.0}


def test_a_pod_that_has_run_for_a_while_resets_the_count() -> None:
    histories, _ = after_short_pods(FREE_REPLACEMENTS + 5)
    histories, now_s = after_short_pods(1, ran_s=STABLE_AFTER_S, before=histories)
    assert histories[0].short_lived == 0
    assert not backing_off(histories, now_s)


def test_time_as_a_pending_pod_does_not_count_as_run_time() -> None:
    young = update_histories(None, {0: owner(0, PodState.LIVE, phase="Pending")}, NOW_S, now_s=NOW_S, status_reason="")
    histories = update_histories(
        young, {0: owner(0, PodState.TERMINATING)}, NOW_S + 900.0, now_s=NOW_S + 900.0, status_reason=""
    )
    assert histories[0].short_lived == 1


@pytest.mark.parametrize("state", ENDED)
def test_a_short_lived_pod_is_counted_once_however_it_ended(state: PodState) -> None:
    histories: Histories | None = None
    for after_s in range(5):
        histories = update_histories(
            histories, {0: owner(0, state)}, NOW_S + after_s, now_s=NOW_S + after_s, status_reason=""
        )
    assert histories == {0: SlotHistory(pod="j-0-0", short_lived=1, ended_at_s=NOW_S, ended_time_s=NOW_S)}


@pytest.mark.parametrize("state", [state for state in PodState if state not in ENDED])
def test_a_pod_that_starts_or_runs_is_not_counted(state: PodState) -> None:
    histories = update_histories(None, {0: owner(0, state)}, NOW_S, now_s=NOW_S, status_reason="")
    assert histories[0].short_lived == 0


def test_a_pod_that_is_replaced_while_it_runs_is_not_counted_and_resets_the_count_if_it_was_stable() -> None:
    histories, now_s = after_short_pods(FREE_REPLACEMENTS)
    live = update_histories(histories, {0: owner(90, PodState.LIVE)}, now_s, now_s=now_s, status_reason="")
    for ran_s, short_lived in ((1.0, FREE_REPLACEMENTS), (STABLE_AFTER_S, 0)):
        assert (
            update_histories(
                live, {0: owner(91, PodState.PENDING_CREATE)}, now_s + ran_s, now_s=now_s, status_reason=""
            )[0].short_lived
            == short_lived
        )


def test_a_pod_that_ran_before_this_process_started_is_stable() -> None:
    live = update_histories(
        None,
        {0: owner(0, PodState.LIVE, running_since_s=NOW_S - STABLE_AFTER_S)},
        NOW_S,
        now_s=NOW_S,
        status_reason=REASON,
    )
    assert (
        update_histories(live, {0: owner(0, PodState.FAILED)}, NOW_S, now_s=NOW_S, status_reason="")[0].short_lived == 0
    )


def test_a_removed_slot_has_no_history() -> None:
    histories, now_s = after_short_pods(FREE_REPLACEMENTS + 5)
    assert update_histories(histories, {}, now_s, now_s=now_s, status_reason=REASON) == {}
    assert after_short_pods(1, before={}, reason=REASON)[0][0].short_lived == 1


def test_a_new_process_continues_the_count_from_the_reason_in_the_status() -> None:
    histories, now_s = after_short_pods(1, reason=REASON)
    assert backing_off(histories, now_s) == {0: now_s + 1.0}


def test_a_waiting_slot_keeps_its_pods_name_unless_its_pod_counts() -> None:
    failed = pod(2, phase="Failed", exit_code=1)
    slots = {
        0: SlotPod("a", PodState.ABSENT),
        1: SlotPod("b", PodState.ABSENT),
        2: SlotPod(failed.name, PodState.FAILED, failed),
    }
    decided = decide_pods(spec(), slots, retained=frozenset(), lost=frozenset(), later=frozenset({1, 2}))
    assert decided.by_slot == {0: PodDecision.REPLACE, 1: PodDecision.KEEP, 2: PodDecision.REPLACE_COUNTED}


def test_the_message_has_the_waiting_slot_the_time_and_the_reason() -> None:
    evicted = pod(0, phase="Failed", reason="Evicted", is_disrupted=True, message="disk pressure")
    histories = {
        0: SlotHistory(pod=evicted.name, short_lived=FREE_REPLACEMENTS + 3, ended_at_s=NOW_S, ended_time_s=NOW_S)
    }
    pending = first_pending_reason(
        seen(job(), view(0, spec=record(0), nodes={}), evicted, job_state=JobState(slot_histories=histories))
    )
    assert pending is not None
    assert pending.reason == REASON
    assert pending.message == (
        f"slot 0 waits for its next pod until {ago(-4.0)}: none of its last 7 pods ran for 10 s; "
        "the last one, j-0-a: it was evicted (Evicted): disk pressure"
    )


def test_a_slot_that_waits_no_longer_has_no_message() -> None:
    histories = {0: SlotHistory(pod="j-0-a", short_lived=FREE_REPLACEMENTS, ended_at_s=NOW_S)}
    assert first_pending_reason(seen(job(), view(0, nodes={}), job_state=JobState(slot_histories=histories))) is None
