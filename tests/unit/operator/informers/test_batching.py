"""When reports are gathered: only while many come and nothing else does."""

import asyncio

import pytest

from elasticjob_operator.informers.batching import BUSY_PER_SECOND, QUIET_PERIOD_S, WINDOW_S, WatchBatcher
from testing.clocks.fake_clock import FakeClock

LONG_S = 3600.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def gathering(clock: FakeClock) -> WatchBatcher:
    return WatchBatcher(clock, batch_delay_s=LONG_S)


def reports_come(
    gathering: WatchBatcher, clock: FakeClock, *, a_second: float = BUSY_PER_SECOND, for_s: float = QUIET_PERIOD_S
) -> None:
    clock.now_s += for_s
    gathering.count(round(a_second * for_s))


def test_a_watch_is_not_left_before_many_have_come(gathering: WatchBatcher, clock: FakeClock) -> None:
    assert gathering.batch_delay is None
    reports_come(gathering, clock, a_second=BUSY_PER_SECOND - 1)
    assert gathering.batch_delay is None


def test_many_reports_are_gathered(gathering: WatchBatcher, clock: FakeClock) -> None:
    reports_come(gathering, clock)
    assert gathering.batch_delay is not None


def test_when_they_get_few_the_watch_is_not_left_any_more(gathering: WatchBatcher, clock: FakeClock) -> None:
    reports_come(gathering, clock)
    reports_come(gathering, clock, a_second=BUSY_PER_SECOND - 1, for_s=WINDOW_S)
    assert gathering.batch_delay is None


def test_after_other_news_the_watch_is_not_left_until_it_is_calm_again(
    gathering: WatchBatcher, clock: FakeClock
) -> None:
    reports_come(gathering, clock)
    gathering.flush()
    assert gathering.batch_delay is None
    reports_come(gathering, clock, for_s=QUIET_PERIOD_S)
    assert gathering.batch_delay is not None


async def test_a_hurry_ends_the_pause(gathering: WatchBatcher, clock: FakeClock) -> None:
    reports_come(gathering, clock)
    assert gathering.batch_delay is not None
    waiting = asyncio.ensure_future(gathering.batch_delay())
    await asyncio.sleep(0)
    assert not waiting.done()
    gathering.flush()
    async with asyncio.timeout(30):
        await waiting


async def test_a_pause_ends_by_itself(clock: FakeClock) -> None:
    gathering = WatchBatcher(clock, batch_delay_s=0.0)
    reports_come(gathering, clock)
    assert gathering.batch_delay is not None
    async with asyncio.timeout(30):
        await gathering.batch_delay()
