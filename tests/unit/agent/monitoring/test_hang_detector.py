"""When a hang is suspected: histories of signs of life, a look every second, ten seconds of deadline."""

from collections.abc import Iterable

import pytest

from elasticjob_agent.monitoring.hang_detector import ActivitySample, HangDetector


def signs(*cpu_s: float, written: int = 100, told: int = 0, round_: int = 1) -> ActivitySample:
    return ActivitySample(round_, written, told, cpu_s)


def observed(history: Iterable[ActivitySample | None]) -> list[float | None]:
    """What is said after each second."""
    suspicion = HangDetector(10.0)
    return [suspicion.observe(float(second), each) for second, each in enumerate(history)]


IDLE = [signs(5.0, 7.0)] * 15


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
def test_silence_is_suspicious_by_what_the_processors_do(shares: tuple[float, float], *, suspected: bool) -> None:
    said = observed([signs(*(share * second for share in shares)) for second in range(12)])
    assert (said[-1] is not None) is suspected


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(signs(5.0, 7.0, written=101), id="output"),
        pytest.param(signs(5.0, 7.0, told=1), id="a heartbeat"),
        pytest.param(signs(5.0, 7.0, round_=2), id="a new round"),
        pytest.param(signs(5.0), id="another number of workers"),
        pytest.param(None, id="none run"),
    ],
)
def test_any_sign_of_life_begins_the_deadline_anew(sign: ActivitySample | None) -> None:
    said = observed([*IDLE[:9], *[sign] * 11])
    assert said[:19] == [None] * 19
    assert said[19] == (None if sign is None else 9.0)


def test_a_suspicion_ends_with_the_first_sign_of_life() -> None:
    assert observed([*IDLE, signs(5.0, 7.0, told=1)])[-2:] == [0.0, None]


def test_what_the_dump_of_stacks_has_written_is_no_sign_of_life() -> None:
    suspicion = HangDetector(10.0)
    suspicion.observe(0.0, signs(5.0))
    assert suspicion.observe(10.0, signs(5.0)) == 0.0
    suspicion.discount(signs(5.1, written=5000))
    assert suspicion.observe(11.0, signs(5.1, written=5000)) == 0.0
    assert suspicion.observe(12.0, signs(5.1, written=5001)) is None
