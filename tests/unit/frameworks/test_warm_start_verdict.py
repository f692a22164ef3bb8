"""The rule that compares warm with cold rounds fails when it must, and reports what it lets pass."""

import pytest

from tests.frameworks.warm_start.verdict import (
    GOOD_END,
    OWN_END_OF_TORCH,
    Counts,
    binomial_tail,
    fisher_tail,
    judge,
)

GOOD = (GOOD_END, GOOD_END)
ABORT = (OWN_END_OF_TORCH, GOOD_END)
BOTH_ABORT = (OWN_END_OF_TORCH, OWN_END_OF_TORCH)
HUNG = (GOOD_END, "hung")
SAME = ("a", "b")
OWN = {OWN_END_OF_TORCH}

PASSES = [
    pytest.param({("cold", SAME, GOOD): 101, ("warm", SAME, GOOD): 1000}, (), id="all good"),
    pytest.param(
        {("cold", SAME, GOOD): 99, ("cold", SAME, ABORT): 1, ("cold", SAME, BOTH_ABORT): 1, ("warm", SAME, GOOD): 1000},
        (f"2 cold rounds ended with: {OWN_END_OF_TORCH}",),
        id="cold rounds alone, rarely",
    ),
    pytest.param(
        {("cold", SAME, GOOD): 99, ("cold", SAME, ABORT): 2, ("warm", SAME, GOOD): 980, ("warm", SAME, ABORT): 20},
        (f"2 cold rounds ended with: {OWN_END_OF_TORCH}", f"20 warm rounds ended with: {OWN_END_OF_TORCH}"),
        id="equally often",
    ),
    pytest.param(
        {("cold", SAME, GOOD): 10, ("cold", SAME, ABORT): 1, ("warm", SAME, GOOD): 100},
        (f"1 cold rounds ended with: {OWN_END_OF_TORCH}",),
        id="one of few",
    ),
]

FAILS = [
    pytest.param({("cold", SAME, GOOD): 2, ("warm", ("a", "c"), GOOD): 2}, "2 different results", id="a result"),
    pytest.param({("cold", SAME, GOOD): 1, ("cold", ("a", "c"), ABORT): 1}, "2 different results", id="a cold result"),
    pytest.param(
        {("cold", SAME, GOOD): 9, ("warm", ("a", ""), ABORT): 1}, "1 warm rounds have no result", id="no warm result"
    ),
    pytest.param(
        {("cold", SAME, GOOD): 9, ("cold", ("a", ""), ABORT): 1}, "1 cold rounds have no result", id="no cold result"
    ),
    pytest.param({("cold", SAME, HUNG): 1, ("warm", SAME, GOOD): 99}, "1 cold rounds ended with: hung", id="cold hung"),
    pytest.param({("cold", SAME, GOOD): 99, ("warm", SAME, HUNG): 1}, "1 warm rounds ended with: hung", id="warm hung"),
    pytest.param(
        {("cold", SAME, HUNG): 2, ("cold", SAME, GOOD): 9, ("warm", SAME, HUNG): 1, ("warm", SAME, GOOD): 99},
        "1 warm rounds ended with: hung",
        id="both hung",
    ),
    pytest.param(
        {("cold", SAME, ("killed by SIGABRT: free(): invalid pointer", GOOD_END)): 1, ("warm", SAME, GOOD): 99},
        "1 cold rounds ended with: killed by SIGABRT: free(): invalid pointer",
        id="another reason for the same signal",
    ),
    pytest.param(
        {("cold", SAME, GOOD): 101, ("warm", SAME, ABORT): 1, ("warm", SAME, GOOD): 999},
        f"warm rounds alone ended with: {OWN_END_OF_TORCH}",
        id="an end that cold rounds never have",
    ),
    pytest.param(
        {("cold", SAME, GOOD): 100, ("cold", SAME, ABORT): 1, ("warm", SAME, ABORT): 85, ("warm", SAME, GOOD): 915},
        "85 of 1000 warm rounds ended badly, but 1 of 101 cold",
        id="more often in warm rounds",
    ),
    pytest.param(
        {("cold", SAME, ABORT): 11, ("warm", SAME, ABORT): 100}, "100 of 100 warm rounds ended badly", id="always"
    ),
    pytest.param(
        {("cold", SAME, ABORT): 5, ("cold", SAME, GOOD): 6, ("warm", SAME, GOOD): 100},
        "5 of 11 cold rounds ended badly",
        id="too many cold rounds",
    ),
]


@pytest.mark.parametrize(("counts", "remarks"), PASSES)
def test_a_rare_end_of_the_framework_itself_is_a_remark(counts: Counts, remarks: tuple[str, ...]) -> None:
    verdict = judge(counts, OWN)
    assert verdict.failures == ()
    assert verdict.remarks == remarks


@pytest.mark.parametrize(("counts", "sentence"), FAILS)
def test_every_other_difference_fails(counts: Counts, sentence: str) -> None:
    assert any(failure.startswith(sentence) for failure in judge(counts, OWN).failures)


def test_a_framework_without_a_known_end_has_none_that_passes() -> None:
    counts: Counts = {("cold", SAME, ABORT): 1, ("cold", SAME, GOOD): 99, ("warm", SAME, GOOD): 1000}
    assert judge(counts).failures == (f"1 cold rounds ended with: {OWN_END_OF_TORCH}",)


def test_the_probabilities_are_exact() -> None:
    assert binomial_tail(0, 10, 0.1) == pytest.approx(1)
    assert binomial_tail(2, 2, 0.1) == pytest.approx(0.01)
    assert fisher_tail(0, 10, 0, 10) == 1
    assert fisher_tail(3, 3, 0, 3) == pytest.approx(1 / 20)
    assert fisher_tail(8, 10, 1, 6) == pytest.approx((45 * 6 + 10) / 11440)
