"""Reports without a change of state are gathered for a moment: etcd delivers them as one, not one by one.

A thousand jobs report some 170 times a second, and a wake-up for each costs more than handling it. Nothing else is kept
waiting for long. Gathering begins when only such reports came for a while. It ends with the first change of another
kind, and with each write of our own, whose echo is awaited.
"""

import asyncio
import contextlib
from collections.abc import Callable

from elasticjob_etcd.watch import BatchDelay

BATCH_DELAY_S = 0.15
"""Etcd looks after a watch that is behind every 100 ms: so what is gathered comes at most 0.25 s late."""
QUIET_PERIOD_S = 1.0
"""After news of another kind: they seldom come alone."""
BUSY_PER_SECOND = 20.0
WINDOW_S = 1.0


class WatchBatcher:
    """Decides whether reports may be gathered for the next moment; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], *, batch_delay_s: float = BATCH_DELAY_S) -> None:
        self._clock = clock
        self._batch_delay_s = batch_delay_s
        self._last_event_s = self._since_s = clock()
        """When something else came last; when counting began."""
        self._count = 0
        self._is_busy = False
        self._flush_requested = asyncio.Event()

    def count(self, reports: int) -> None:
        """Count reports without a change of state."""
        self._count += reports
        now_s = self._clock()
        if (took_s := now_s - self._since_s) >= WINDOW_S:
            self._is_busy = self._count >= BUSY_PER_SECOND * took_s
            self._since_s, self._count = now_s, 0

    def flush(self) -> None:
        """Something else has come, or will at once."""
        self._last_event_s = self._clock()
        self._flush_requested.set()

    @property
    def batch_delay(self) -> BatchDelay | None:
        """The pause before the watch goes on; None: it should not pause."""
        calm = self._is_busy and self._clock() - self._last_event_s >= QUIET_PERIOD_S
        return self._wait if calm else None

    async def _wait(self) -> None:
        # Nothing is awaited between a look at `batch_delay` and this: no hurry in between is lost.
        self._flush_requested.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._batch_delay_s):
                await self._flush_requested.wait()
