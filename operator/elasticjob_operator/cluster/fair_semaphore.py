"""A semaphore whose permits are shared between groups, so that one slow group cannot hold all of them.

A free permit goes to the waiting group that holds the fewest. Within a group the first request is served first. For one
event loop.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable


class FairSemaphore:
    """A semaphore of `permits`; one group never holds more than `max_per_group`."""

    def __init__(self, permits: int, *, max_per_group: int) -> None:
        self._free = permits
        self._max_per_group = max_per_group
        self._acquired: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, group: Hashable) -> AsyncIterator[None]:
        """Wait for a permit, and hold it while this is entered."""
        await self._acquire(group)
        try:
            yield
        finally:
            self._release(group)

    async def _acquire(self, group: Hashable) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release(group)  # granted and cancelled in the same iteration of the event loop
            else:
                self._forget(group, granted)
            raise

    def _release(self, group: Hashable) -> None:
        self._free += 1
        self._acquired[group] -= 1
        if not self._acquired[group]:
            del self._acquired[group]
        self._grant()

    def _grant(self) -> None:
        while self._free and (group := self._next()) is not None:
            granted = self._waiting[group][0]
            self._forget(group, granted)
            if not granted.done():
                self._free -= 1
                self._acquired[group] += 1
                granted.set_result(None)

    def _next(self) -> Hashable | None:
        """Return the waiting group below its limit that holds the fewest permits, or None."""
        allowed = (group for group in self._waiting if self._acquired[group] < self._max_per_group)
        return min(allowed, key=self._acquired.__getitem__, default=None)

    def _forget(self, group: Hashable, granted: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(group)
        if waiting is None or granted not in waiting:
            return
        waiting.remove(granted)
        if not waiting:
            del self._waiting[group]
