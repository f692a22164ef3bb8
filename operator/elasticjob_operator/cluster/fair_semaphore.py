"""A semaphore whose places are shared between groups: one group that holds its places for long leaves some to others.

A free place goes to the waiting group that holds the fewest. Within a group the order is that of the requests. For one
event loop.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable


class FairSemaphore:
    """So many places in all, of which one group never holds more than `max_per_group`."""

    def __init__(self, permits: int, *, max_per_group: int) -> None:
        self._free = permits
        self._max_per_group = max_per_group
        self._acquired: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, group: Hashable) -> AsyncIterator[None]:
        """Wait for a place, and hold it while this is entered."""
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
                self._release(group)  # it was granted and cancelled in one turn of the loop
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
        """The waiting group that may have a place and holds the fewest."""
        allowed = (group for group in self._waiting if self._acquired[group] < self._max_per_group)
        return min(allowed, key=self._acquired.__getitem__, default=None)

    def _forget(self, group: Hashable, granted: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(group)
        if waiting is None or granted not in waiting:
            return
        waiting.remove(granted)
        if not waiting:
            del self._waiting[group]
