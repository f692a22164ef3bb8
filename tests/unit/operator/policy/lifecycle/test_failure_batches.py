"""Pods that fail together count once."""

from typing import Any

import pytest

from elasticjob_operator.policy.lifecycle.failure_batches import WINDOW_S, batches
from testing.builders import NOW_S, pod


def failed(slot: int, *, at_s: float | None = 0.0, born_s: float = -1000.0) -> Any:
    ended_s = None if at_s is None else NOW_S + at_s
    return pod(slot, phase="Failed", exit_code=1, created_s=NOW_S + born_s, ended_s=ended_s)


def test_one_failure_counts_once() -> None:
    assert batches([], []) == 0
    assert batches([failed(0)], []) == 1


def test_pods_that_fail_within_a_few_seconds_count_once() -> None:
    assert batches([failed(slot, at_s=slot) for slot in range(8)], []) == 1


def test_what_was_counted_before_is_not_counted_again() -> None:
    assert batches([failed(1, at_s=WINDOW_S)], [failed(0)]) == 0
    assert batches([failed(1, at_s=-WINDOW_S)], [failed(0)]) == 0  # the look that found the other was earlier


def test_failures_that_lie_apart_count_each() -> None:
    assert batches([failed(1, at_s=WINDOW_S + 1)], [failed(0)]) == 1
    assert batches([failed(0), failed(1, at_s=60), failed(2, at_s=120)], []) == 3


def test_a_slot_whose_pods_fail_again_and_again_counts_each_time() -> None:
    """The new pod was not there when the one before failed: it failed for a reason of its own."""
    assert batches([failed(0, at_s=4, born_s=1)], [failed(0, at_s=0)]) == 1


def test_a_job_all_of_whose_pods_fail_again_and_again_counts_once_a_generation() -> None:
    first = [failed(slot, at_s=0.2 * slot) for slot in range(5)]
    second = [failed(slot, at_s=4 + 0.2 * slot, born_s=1) for slot in range(5)]
    assert batches(second, first) == 1


@pytest.mark.parametrize("other", [failed(0), failed(0, at_s=None)])
def test_a_failure_of_which_no_kubelet_told_the_time_counts_for_itself(other: Any) -> None:
    assert batches([failed(1, at_s=None)], [other]) == 1
    assert batches([failed(1, at_s=None), failed(2, at_s=None)], []) == 2


def test_two_slots_that_crash_by_turns_are_not_one_batch_for_ever() -> None:
    kept: dict[int, Any] = {}
    counted = 0
    for n in range(20):
        slot, at_s = n % 2, 3.0 * n
        failing = failed(slot, at_s=at_s, born_s=at_s - 5.0)
        counted += batches([failing], kept.values())
        kept[slot] = failing
    assert counted >= 9
