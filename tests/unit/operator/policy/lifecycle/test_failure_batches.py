"""Pods that fail together count once."""

from typing import Any

import pytest

from elasticjob_operator.policy.lifecycle.failure_batches import WINDOW_S, batches
from testing.builders import NOW_S, pod


def failed(slot: int, *, at_s: float | None = 0.0, created_s: float = -1000.0) -> Any:
    ended_s = None if at_s is None else NOW_S + at_s
    return pod(slot, phase="Failed", exit_code=1, created_s=NOW_S + created_s, ended_s=ended_s)


def test_one_failure_counts_once() -> None:
    assert batches([], []) == 0
    assert batches([failed(0)], []) == 1


def test_pods_that_fail_within_a_few_seconds_count_once() -> None:
    assert batches([failed(slot, at_s=slot) for slot in range(8)], []) == 1


def test_a_batch_that_was_counted_before_is_not_counted_again() -> None:
    assert batches([failed(1, at_s=WINDOW_S)], [failed(0)]) == 0
    assert batches([failed(1, at_s=-WINDOW_S)], [failed(0)]) == 0  # the other failure was found earlier


def test_failures_far_apart_in_time_count_separately() -> None:
    assert batches([failed(1, at_s=WINDOW_S + 1)], [failed(0)]) == 1
    assert batches([failed(0), failed(1, at_s=60), failed(2, at_s=120)], []) == 3


def test_a_slot_whose_pods_fail_repeatedly_counts_each_time() -> None:
    """The new pod did not exist when the previous one failed, so it failed for its own reason."""
    assert batches([failed(0, at_s=4, created_s=1)], [failed(0, at_s=0)]) == 1


def test_a_job_whose_pods_all_fail_repeatedly_counts_once_per_generation() -> None:
    first = [failed(slot, at_s=0.2 * slot) for slot in range(5)]
    second = [failed(slot, at_s=4 + 0.2 * slot, created_s=1) for slot in range(5)]
    assert batches(second, first) == 1


@pytest.mark.parametrize("other", [failed(0), failed(0, at_s=None)])
def test_a_failure_without_a_time_counts_separately(other: Any) -> None:
    assert batches([failed(1, at_s=None)], [other]) == 1
    assert batches([failed(1, at_s=None), failed(2, at_s=None)], []) == 2


def test_two_slots_that_crash_in_turn_are_not_one_endless_batch() -> None:
    earlier: dict[int, Any] = {}
    counted = 0
    for n in range(20):
        slot, at_s = n % 2, 3.0 * n
        failing = failed(slot, at_s=at_s, created_s=at_s - 5.0)
        counted += batches([failing], earlier.values())
        earlier[slot] = failing
    assert counted >= 9
