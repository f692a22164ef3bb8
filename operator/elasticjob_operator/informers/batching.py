"""Batching of samples: the watch pauses, and etcd then delivers many of them at once.

A thousand jobs write about 170 samples a second, and a wake-up for each costs more than handling it. Other changes are
not delayed for long. Batching begins when only samples arrived for a while. It ends with the first change of
another kind, and with each write of this operator, because the reconciler waits for its delivery.
"""

import asyncio
import contextlib
from collections.abc import Callable

from elasticjob_etcd.watch import BatchDelay

BATCH_DELAY_S = 0.15
"""Pause of the watch. Etcd serves a delayed watch every 100 ms, so a change is at most 0.25 s late."""
QUIET_PERIOD_S = 1.0
"""Time without batching after a change of another kind; such changes often follow each other."""
BUSY_PER_SECOND = 20.0
WINDOW_S = 1.0


class WatchBatcher:
    """Decides whether the watch may pause to batch samples; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], *, batch_delay_s: float = BATCH_DELAY_S) -> None:
        self._clock = clock
        self._batch_delay_s = batch_delay_s
        self._last_event_s = self._since_s = clock()
        """Times of the last change of another kind, and of the beginning of the count."""
        self._count = 0
        self._is_busy = False
        self._flush_requested = asyncio.Event()

    def count(self, samples: int) -> None:
        """Count changes of samples alone."""
        self._count += samples
        now_s = self._clock()
        if (took_s := now_s - self._since_s) >= WINDOW_S:
            self._is_busy = self._count >= BUSY_PER_SECOND * took_s
            self._since_s, self._count = now_s, 0

    def flush(self) -> None:
        """End batching: a change of another kind has arrived or is expected."""
        self._last_event_s = self._clock()
        self._flush_requested.set()

    @property
    def batch_delay(self) -> BatchDelay | None:
        """The function that waits before the watch continues; None if the watch should not wait."""
        may_pause = self._is_busy and self._clock() - self._last_event_s >= QUIET_PERIOD_S
        return self._wait if may_pause else None

    async def _wait(self) -> None:
        # There is no await between reading `batch_delay` and this line, so no `flush` is lost.
        self._flush_requested.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._batch_delay_s):
                await self._flush_requested.wait()
