"""Batching of reports: only while many arrive and nothing else does."""

import asyncio

import pytest

from elasticjob_operator.informers.batching import BUSY_PER_SECOND, QUIET_PERIOD_S, WINDOW_S, WatchBatcher
from testing.clocks.fake_clock import FakeClock

LONG_S = 3600.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def batcher(clock: FakeClock) -> WatchBatcher:
    return WatchBatcher(clock, batch_delay_s=LONG_S)


def count_reports(
    batcher: WatchBatcher, clock: FakeClock, *, a_second: float = BUSY_PER_SECOND, for_s: float = QUIET_PERIOD_S
) -> None:
    clock.now_s += for_s
    batcher.count(round(a_second * for_s))


def test_the_watch_does_not_pause_before_many_reports_arrived(batcher: WatchBatcher, clock: FakeClock) -> None:
    assert batcher.batch_delay is None
    count_reports(batcher, clock, a_second=BUSY_PER_SECOND - 1)
    assert batcher.batch_delay is None


def test_many_reports_are_batched(batcher: WatchBatcher, clock: FakeClock) -> None:
    count_reports(batcher, clock)
    assert batcher.batch_delay is not None


def test_the_watch_no_longer_pauses_when_reports_become_few(batcher: WatchBatcher, clock: FakeClock) -> None:
    count_reports(batcher, clock)
    count_reports(batcher, clock, a_second=BUSY_PER_SECOND - 1, for_s=WINDOW_S)
    assert batcher.batch_delay is None


def test_the_watch_does_not_pause_soon_after_another_change(batcher: WatchBatcher, clock: FakeClock) -> None:
    count_reports(batcher, clock)
    batcher.flush()
    assert batcher.batch_delay is None
    count_reports(batcher, clock, for_s=QUIET_PERIOD_S)
    assert batcher.batch_delay is not None


async def test_a_flush_ends_the_pause(batcher: WatchBatcher, clock: FakeClock) -> None:
    count_reports(batcher, clock)
    assert batcher.batch_delay is not None
    waiting = asyncio.ensure_future(batcher.batch_delay())
    await asyncio.sleep(0)
    assert not waiting.done()
    batcher.flush()
    async with asyncio.timeout(30):
        await waiting


async def test_a_pause_ends_by_itself(clock: FakeClock) -> None:
    batcher = WatchBatcher(clock, batch_delay_s=0.0)
    count_reports(batcher, clock)
    assert batcher.batch_delay is not None
    async with asyncio.timeout(30):
        await batcher.batch_delay()
