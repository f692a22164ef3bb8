"""A work queue by key: deduplicated, one worker per key at a time, back-off per key.

Adding a key that waits does nothing. Adding a key that is being handled makes it run once more afterwards. So no change
is missed, and no key is handled twice at the same time. A key whose work fails is retried with growing pauses, and
never stops another key. A Retry-After of the API server is a lower bound. A change may cure the fault, so it does not
wait for the back-off. But changes of a key that fails repeatedly wait a second. Otherwise, in a namespace that is being
deleted, each deleted pod would cause an attempt to create another.

After each run a key waits for `min_interval_s`, and all changes in between are handled in one run. So the thousand
changes of a large job do not use all of the processor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from elasticjob_etcd.errors import EtcdError
from elasticjob_operator.cluster.fair_semaphore import FairSemaphore
from elasticjob_operator.errors import ClusterError, OperatorError

K = TypeVar("K", bound=Hashable)

COALESCE_S, _MAX_COALESCE_S = 0.005, 0.2
"""Changes arrive in bursts (a round of many agents): they are collected for this time and handled as one."""
_IDLE = 5
"""Number of busy keys above which changes are collected longer, so that the work does not grow with the keys."""
_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 30.0
MAX_WORKERS = 128
"""Keys that are handled at the same time, because each handler uses memory; the others wait."""
MAX_WORKERS_PER_GROUP = 96
"""The same for one group: if its handlers hang (in an admission webhook), other groups still have workers."""
_FAILING_AFTER = 3
"""Failures in a row after which changes are collected too."""
_CLEANUP_S = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    task: asyncio.Task[None] | None = None
    dirty: bool = False
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    failed_at_s: float = 0.0
    """Seconds of the event loop's clock."""


def coalesce_s(busy: int) -> float:
    """Return for how long changes of a key are collected while that many keys are busy."""
    return min(_MAX_COALESCE_S, COALESCE_S * max(1.0, busy / _IDLE))


class WorkQueue(Generic[K]):
    """Runs `handle(key)` for every key added while it is open; `handle` may return seconds until the next run.

    `min_interval_s` is called after each run, and returns the least time until the next run of the key. Groups share
    the workers fairly.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        min_interval_s: Callable[[K], float] = lambda _: 0.0,
        group: Callable[[K], Hashable] = lambda _: None,
    ) -> None:
        self._group = group
        self._handle = handle
        self._min_interval_s = min_interval_s
        self._not_before_s: dict[K, float] = {}
        """Earliest next run, in seconds of the event loop's clock; only for intervals longer than `COALESCE_S`."""
        self._entries: dict[K, _Entry] = {}
        self._is_open = False
        self._slots = FairSemaphore(MAX_WORKERS, max_per_group=MAX_WORKERS_PER_GROUP)
        self._busy = 0
        """Number of keys that are being handled or wait for a worker."""

    def add(self, key: K) -> None:
        """Handle `key` soon; once more if it is being handled now."""
        entry = self._entries.setdefault(key, _Entry())
        entry.dirty = True
        if not self._is_open or entry.task is not None:
            return
        loop = asyncio.get_running_loop()
        pause_s = self._delay_s(key, entry)
        if pause_s > 0:
            self.add_after(key, pause_s)
        else:
            self._busy += 1
            entry.task = loop.create_task(self._work(key, entry), name=f"work on {key}")

    def _delay_s(self, key: K, entry: _Entry) -> float:
        failed_until_s = entry.failed_at_s + _CLEANUP_S if entry.failures >= _FAILING_AFTER else 0.0
        return max(failed_until_s, self._not_before_s.get(key, 0.0)) - asyncio.get_running_loop().time()

    def add_after(self, key: K, delay_s: float) -> None:
        """Handle `key` in `delay_s` seconds; of several calls the earliest time counts."""
        entry = self._entries.setdefault(key, _Entry())
        loop = asyncio.get_running_loop()
        if entry.timer is not None:
            if entry.timer.when() <= loop.time() + delay_s:
                return
            entry.timer.cancel()
        entry.timer = loop.call_later(max(0.0, delay_s), self._fire, key, entry)

    @property
    def depth(self) -> int:
        """Number of keys that wait or are being handled; keys that only have a later time do not count."""
        return sum(entry.dirty or entry.task is not None for entry in self._entries.values())

    def open(self) -> None:
        """Start handling keys, first those added before."""
        self._is_open = True
        for key in [key for key, entry in self._entries.items() if entry.dirty]:
            self.add(key)

    async def close(self) -> None:
        """Cancel all work, and wait until nothing runs. Idempotent."""
        self._is_open = False
        entries, self._entries = list(self._entries.values()), {}
        tasks = [entry.task for entry in entries if entry.task is not None]
        for entry in entries:
            if entry.timer is not None:
                entry.timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._busy = 0

    def _fire(self, key: K, entry: _Entry) -> None:
        entry.timer = None
        self.add(key)

    async def _work(self, key: K, entry: _Entry) -> None:
        while entry.dirty:
            await asyncio.sleep(coalesce_s(self._busy))
            async with self._slots.slot(self._group(key)):
                entry.dirty = False
                delay_s = await self._try(key, entry)
            if delay_s is not None:
                self.add_after(key, delay_s)
            if self._wait_interval(key):
                break
        # There is no await between the last check of `dirty` and this line, so no `add` is lost.
        entry.task = None
        self._busy -= 1
        if entry.dirty:
            self.add(key)
        if entry.timer is None:
            self._entries.pop(key, None)

    def _wait_interval(self, key: K) -> bool:
        interval_s = self._min_interval_s(key)
        if interval_s <= COALESCE_S:
            self._not_before_s.pop(key, None)
            return False
        self._not_before_s[key] = asyncio.get_running_loop().time() + interval_s
        return True

    async def _try(self, key: K, entry: _Entry) -> float | None:
        try:
            delay_s = await self._handle(key)
        except (OperatorError, EtcdError) as error:
            delay_s = max(self._back_off(entry), error.retry_after_s if isinstance(error, ClusterError) else 0.0)
            log.warning("%s: %s; trying again in %.1f s", key, error, delay_s)
        except Exception:
            # A bug of the operator that concerns one job: log the traceback, and continue with the others.
            delay_s = self._back_off(entry)
            log.exception("%s: unexpected error; trying again in %.1f s", key, delay_s)
        else:
            entry.failures = 0
        return delay_s

    def _back_off(self, entry: _Entry) -> float:
        delay_s = min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(entry.failures, 10))
        entry.failures += 1
        entry.failed_at_s = asyncio.get_running_loop().time()
        return float(delay_s)
