"""The work queue: deduplicated, one worker per key, growing pauses after failures, and independent keys.

The tests check the order of events, not durations: each waits for a condition.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable

import pytest

from elasticjob_etcd.errors import EtcdError
from elasticjob_operator.controller.workqueue import (
    COALESCE_S,
    MAX_WORKERS,
    MAX_WORKERS_PER_GROUP,
    WorkQueue,
    coalesce_s,
)
from elasticjob_operator.errors import ClusterError, RetryLater
from testing.waiting import aeventually


class Work:
    """A queue with a handler that a test can hold and let fail."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.held: dict[str, asyncio.Event] = {}
        self.errors: dict[str, list[Exception]] = {}
        self.delays_s: dict[str, list[float]] = {}
        self.rests_s: dict[str, float] = {}
        self.queue: WorkQueue[str] = WorkQueue(
            self.handle, min_interval_s=lambda key: self.rests_s.get(key, 0.0), group=lambda key: key.partition("/")[0]
        )

    async def handle(self, key: str) -> float | None:
        self.begun[key] += 1
        self.at_once[key] += 1
        self.most_at_once[key] = max(self.most_at_once[key], self.at_once[key])
        try:
            if key in self.held:
                await self.held[key].wait()
            if self.errors.get(key):
                raise self.errors[key].pop(0)
        finally:
            self.at_once[key] -= 1
        self.ended[key] += 1
        return self.delays_s[key].pop(0) if self.delays_s.get(key) else None

    def hold(self, key: str) -> asyncio.Event:
        self.held[key] = asyncio.Event()
        return self.held[key]

    async def until(self, condition: Callable[[], bool]) -> None:
        await aeventually(condition)

    async def rest(self) -> None:
        """Wait until every key that was added before is handled: another key is handled after them."""
        self.queue.add("marker")
        before = self.ended["marker"]
        await self.until(lambda: self.ended["marker"] > before)


@pytest.fixture
async def work() -> AsyncGenerator[Work, None]:
    made = Work()
    made.queue.open()
    yield made
    await made.queue.close()


async def test_a_key_that_is_added_often_while_it_waits_is_handled_once(work: Work) -> None:
    for _ in range(5):
        work.queue.add("a")
    await work.rest()
    assert work.ended["a"] == 1


async def test_a_key_that_is_added_while_it_is_handled_is_handled_once_more(work: Work) -> None:
    gate = work.hold("a")
    work.queue.add("a")
    await work.until(lambda: work.begun["a"] == 1)
    for _ in range(3):
        work.queue.add("a")
    gate.set()
    await work.until(lambda: work.ended["a"] == 2)
    await work.rest()
    assert (work.ended["a"], work.most_at_once["a"]) == (2, 1)


async def test_a_slow_key_does_not_delay_another(work: Work) -> None:
    gate = work.hold("a")
    work.queue.add("a")
    await work.rest()
    assert (work.begun["a"], work.ended["a"]) == (1, 0)
    gate.set()


async def test_nothing_is_handled_before_the_queue_is_open(work: Work) -> None:
    closed = Work()
    closed.queue.add("a")
    await work.rest()
    assert closed.begun["a"] == 0
    closed.queue.open()
    await work.until(lambda: closed.ended["a"] == 1)
    await closed.queue.close()


@pytest.mark.parametrize("error", [ClusterError("no"), EtcdError("no")])
async def test_a_failed_key_is_retried(work: Work, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    work.errors["a"] = [error]
    work.queue.add("a")
    await work.until(lambda: work.ended["a"] == 1)
    assert work.begun["a"] == 2
    assert "a: no; trying again in 0.1 s" in caplog.text


async def test_pauses_grow_with_consecutive_failures_and_a_success_resets_them(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.errors["a"] = [ClusterError("no"), ClusterError("no")]
    work.queue.add("a")
    await work.until(lambda: work.ended["a"] == 1)
    work.errors["a"] = [ClusterError("no")]
    work.queue.add("a")
    await work.until(lambda: work.ended["a"] == 2)
    assert [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)] == [0.1, 0.2, 0.1]


async def test_an_unexpected_error_of_one_key_is_logged_with_its_traceback_and_stops_no_other(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.errors["a"] = [KeyError("oops")]
    work.queue.add("a")
    await work.rest()
    await work.until(lambda: work.ended["a"] == 1)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None


async def test_a_change_does_not_wait_for_the_back_off(work: Work) -> None:
    work.errors["a"] = [ClusterError("no")] * 9
    work.queue.add("a")
    await work.until(lambda: work.begun["a"] == 1)
    work.errors["a"].clear()
    work.queue.add("a")
    await work.rest()
    assert work.ended["a"] >= 1


async def test_changes_of_a_key_that_fails_repeatedly_are_collected(work: Work) -> None:
    work.errors["a"] = [ClusterError("the namespace is being terminated")] * 99
    work.queue.add("a")
    await work.until(lambda: work.begun["a"] == 3)
    for _ in range(5):
        work.queue.add("a")
        await work.rest()
    assert work.begun["a"] == 3


async def test_a_retry_after_of_the_api_server_is_respected(work: Work, caplog: pytest.LogCaptureFixture) -> None:
    busy = RetryLater("too many requests")
    busy.retry_after_s = 77.0
    work.errors["a"] = [busy]
    work.queue.add("a")
    await work.until(lambda: "trying again in 77.0 s" in caplog.text)


async def test_the_number_of_keys_handled_at_the_same_time_is_limited(work: Work) -> None:
    keys = [str(n) for n in range(MAX_WORKERS + 50)]
    gates = {key: work.hold(key) for key in keys}
    for key in keys:
        work.queue.add(key)
    await work.until(lambda: len(work.begun) == MAX_WORKERS)
    for _ in range(20):
        await asyncio.sleep(0)
    assert set(work.begun) == set(keys[:MAX_WORKERS])
    work.queue.add(keys[-1])  # it waits: this is the same turn
    for gate in gates.values():
        gate.set()
    await work.until(lambda: len(work.ended) == len(keys))
    assert work.begun[keys[-1]] == 1


async def test_hanging_keys_of_one_group_leave_workers_to_the_others(work: Work) -> None:
    keys = [f"a/{n}" for n in range(2 * MAX_WORKERS)]
    gates = [work.hold(key) for key in keys]
    for key in keys:
        work.queue.add(key)
    await work.until(lambda: len(work.begun) >= MAX_WORKERS_PER_GROUP)
    work.queue.add("b/1")
    await work.until(lambda: work.ended["b/1"] == 1)
    assert len(work.begun) == MAX_WORKERS_PER_GROUP + 1
    for gate in gates:
        gate.set()
    await work.until(lambda: len(work.ended) == len(keys) + 1)


async def test_a_handler_may_request_another_run(work: Work) -> None:
    work.delays_s["a"] = [0.0, 0.001]
    work.queue.add("a")
    await work.until(lambda: work.ended["a"] == 3)


async def test_the_earliest_of_several_times_counts(work: Work) -> None:
    work.queue.add_after("a", 3600.0)
    work.queue.add_after("a", 0.0)
    work.queue.add_after("a", 3600.0)
    await work.until(lambda: work.ended["a"] == 1)


async def test_all_changes_during_the_interval_of_a_key_are_handled_in_one_run(work: Work) -> None:
    work.rests_s["large"] = 3600.0
    work.queue.add("large")
    await work.until(lambda: work.ended["large"] == 1)
    for _ in range(20):
        work.queue.add("large")
        await work.rest()
    assert work.begun["large"] == 1
    assert work.queue.depth == 1, "it waits for its turn"


async def test_changes_during_a_run_are_handled_after_the_interval(work: Work) -> None:
    gate, work.rests_s["large"] = work.hold("large"), 0.05
    work.queue.add("large")
    await work.until(lambda: work.begun["large"] == 1)
    work.queue.add("large")
    gate.set()
    await work.until(lambda: work.ended["large"] == 2)


async def test_a_time_within_the_interval_is_delayed_to_its_end(work: Work) -> None:
    work.rests_s["large"], work.delays_s["large"] = 3600.0, [0.0]
    work.queue.add("large")
    await work.until(lambda: work.ended["large"] == 1)
    await work.rest()
    await work.rest()
    assert work.begun["large"] == 1


async def test_closing_cancels_running_and_planned_work() -> None:
    work = Work()
    work.queue.open()
    work.hold("a")
    work.queue.add("a")
    work.queue.add_after("b", 0.0)
    await work.until(lambda: work.begun["a"] == 1)
    await work.queue.close()
    await work.queue.close()
    assert (work.at_once["a"], work.ended["a"]) == (0, 0)


@pytest.mark.parametrize(("busy", "gathered_s"), [(0, COALESCE_S), (1, COALESCE_S), (50, 0.05), (10_000, 0.2)])
def test_changes_are_collected_longer_while_more_keys_are_busy(busy: int, gathered_s: float) -> None:
    assert coalesce_s(busy) == pytest.approx(gathered_s)
