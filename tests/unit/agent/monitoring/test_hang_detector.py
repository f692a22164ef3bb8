"""The rule for a suspected hang: histories of samples, one each second, with a deadline of ten seconds."""

from collections.abc import Iterable

import pytest

from elasticjob_agent.monitoring.hang_detector import ActivitySample, HangDetector


def sample(*cpu_s: float, written: int = 100, messages: int = 0, round_: int = 1) -> ActivitySample:
    return ActivitySample(round_, written, messages, cpu_s)


def observed(history: Iterable[ActivitySample | None]) -> list[float | None]:
    """Return the detector's result after each second."""
    detector = HangDetector(10.0)
    return [detector.observe(float(second), each) for second, each in enumerate(history)]


IDLE = [sample(5.0, 7.0)] * 15


def test_idle_and_silent_workers_are_suspected_after_the_deadline_and_not_before() -> None:
    assert observed(IDLE) == [None] * 10 + [0.0] * 5


@pytest.mark.parametrize(
    ("shares", "suspected"),
    [
        pytest.param((0.0, 0.0), True, id="all wait"),
        pytest.param((1.0, 1.0), True, id="all spin"),
        pytest.param((4.0, 1.0), True, id="all spin, one on several cores"),
        pytest.param((0.0, 1.0), True, id="one spins for another that waits"),
        pytest.param((0.5, 0.0), False, id="one computes and pauses"),
        pytest.param((0.5, 1.0), False, id="one computes, one spins"),
    ],
)
def test_silence_is_suspicious_only_with_idle_or_spinning_workers(
    shares: tuple[float, float], *, suspected: bool
) -> None:
    results = observed([sample(*(share * second for share in shares)) for second in range(12)])
    assert (results[-1] is not None) is suspected


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(sample(5.0, 7.0, written=101), id="output"),
        pytest.param(sample(5.0, 7.0, messages=1), id="a heartbeat"),
        pytest.param(sample(5.0, 7.0, round_=2), id="a new round"),
        pytest.param(sample(5.0), id="another number of workers"),
        pytest.param(None, id="no worker runs"),
    ],
)
def test_any_sign_of_life_restarts_the_deadline(sign: ActivitySample | None) -> None:
    results = observed([*IDLE[:9], *[sign] * 11])
    assert results[:19] == [None] * 19
    assert results[19] == (None if sign is None else 9.0)


def test_a_suspicion_ends_with_the_first_sign_of_life() -> None:
    assert observed([*IDLE, sample(5.0, 7.0, messages=1)])[-2:] == [0.0, None]


def test_output_of_the_stack_dump_is_no_sign_of_life() -> None:
    detector = HangDetector(10.0)
    detector.observe(0.0, sample(5.0))
    assert detector.observe(10.0, sample(5.0)) == 0.0
    detector.discount(sample(5.1, written=5000))
    assert detector.observe(11.0, sample(5.1, written=5000)) == 0.0
    assert detector.observe(12.0, sample(5.1, written=5001)) is None
