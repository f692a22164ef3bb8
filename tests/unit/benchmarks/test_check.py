"""The gate of counts: what is above its tolerance fails, what is below the baseline is said, and a count can grow."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import check
from benchmarks.counts import calls
from benchmarks.counts.record import Count


@pytest.mark.parametrize(
    ("value", "said"),
    [(10.0, ""), (11.0, ""), (11.2, "regressed"), (9.5, ""), (5.0, "improved")],
    ids=["as before", "at the limit", "above it", "a little less", "far less"],
)
def test_a_count_is_compared_with_its_baseline(value: float, said: str) -> None:
    assert check.verdict(Count("requests", value), 10.0).startswith(said)


def test_a_count_without_a_baseline_fails() -> None:
    assert check.failed([check.verdict(Count("new", 1.0), None)])


def test_an_improvement_fails_nothing() -> None:
    assert not check.failed(["", check.verdict(Count("requests", 1.0), 10.0)])


def test_every_committed_baseline_is_a_number() -> None:
    baseline = json.loads(check.BASELINE.read_text())
    assert baseline
    assert all(isinstance(value, (int, float)) for value in baseline.values())


def linear(nodes: int) -> Callable[[], Any]:
    return lambda: [abs(node) for node in range(nodes)]


def quadratic(nodes: int) -> Callable[[], Any]:
    return lambda: [abs(other) for node in range(nodes // 50) for other in range(nodes // 50)]


def test_a_linear_act_and_a_quadratic_one_are_told_apart() -> None:
    assert calls.growth(linear) == pytest.approx(1.0, abs=0.01)
    assert calls.growth(quadratic) == pytest.approx(2.0, abs=0.01)


def test_planning_a_round_and_taking_a_place_are_linear_at_most() -> None:
    assert max(calls.growth(calls.closer_plans), calls.growth(calls.member_places)) < 1.1
