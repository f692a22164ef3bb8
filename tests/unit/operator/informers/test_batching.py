"""When reports are gathered: only while many come and nothing else does."""

import asyncio

import pytest

from elasticjob_operator.informers.batching import CALM_S, MANY_A_SECOND, WINDOW_S, Gathering
from testing.clocks.fake_clock import Clock

LONG_S = 3600.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gathering(clock: Clock) -> Gathering:
    return Gathering(clock, pause_s=LONG_S)


def reports_come(gathering: Gathering, clock: Clock, *, a_second: float = MANY_A_SECOND, for_s: float = CALM_S) -> None:
    clock.now_s += for_s
    gathering.soft(round(a_second * for_s))


def test_a_watch_is_not_left_before_many_have_come(gathering: Gathering, clock: Clock) -> None:
    assert gathering.pause is None
    reports_come(gathering, clock, a_second=MANY_A_SECOND - 1)
    assert gathering.pause is None


def test_many_reports_are_gathered(gathering: Gathering, clock: Clock) -> None:
    reports_come(gathering, clock)
    assert gathering.pause is not None


def test_when_they_get_few_the_watch_is_not_left_any_more(gathering: Gathering, clock: Clock) -> None:
    reports_come(gathering, clock)
    reports_come(gathering, clock, a_second=MANY_A_SECOND - 1, for_s=WINDOW_S)
    assert gathering.pause is None


def test_after_other_news_the_watch_is_not_left_until_it_is_calm_again(gathering: Gathering, clock: Clock) -> None:
    reports_come(gathering, clock)
    gathering.hurry()
    assert gathering.pause is None
    reports_come(gathering, clock, for_s=CALM_S)
    assert gathering.pause is not None


async def test_a_hurry_ends_the_pause(gathering: Gathering, clock: Clock) -> None:
    reports_come(gathering, clock)
    assert gathering.pause is not None
    waiting = asyncio.ensure_future(gathering.pause())
    await asyncio.sleep(0)
    assert not waiting.done()
    gathering.hurry()
    async with asyncio.timeout(30):
        await waiting


async def test_a_pause_ends_by_itself(clock: Clock) -> None:
    gathering = Gathering(clock, pause_s=0.0)
    reports_come(gathering, clock)
    assert gathering.pause is not None
    async with asyncio.timeout(30):
        await gathering.pause()
