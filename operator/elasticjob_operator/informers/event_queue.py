"""Events between watches and the reader of one kind of object: the newest of each object, in order.

A watch must not wait for its reader, so `put` never blocks and never fails. While the reader lists, only the newest
version of an object waits. A watch that began anew does not report earlier deletions, so the reader is asked from time
to time to list again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import ObjectEvent

T = TypeVar("T")


class EventQueue:
    """Events of one kind; `get` returns None when it is time to list again."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str, str] | None, ObjectEvent | None] = OrderedDict()
        """Events by object, in the order in which they began to wait; the key None requests a list."""
        self._arrived = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stale: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._list_limit: asyncio.Timeout | None = None
        """The limit of the wait for an item of a list; `fail` lets it expire."""

    async def get(self) -> ObjectEvent | None:
        """Wait for the next event and return it; None requests a list.

        Raises the error of `fail`, if there is one.
        """
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popitem(last=False)[1]

    async def next_of(self, items: AsyncGenerator[T, None]) -> T | None:
        """Return the next item of a list, or None after the last one.

        Raises the error of `fail` at once: a list may be retried for as long as the watches fail.
        """
        if self._failure is not None:
            raise self._failure
        try:
            async with asyncio.timeout(None) as self._list_limit:
                return await anext(items, None)
        except TimeoutError:
            if self._failure is None:
                raise
            raise self._failure from None
        finally:
            self._list_limit = None

    def put(self, event: ObjectEvent) -> None:
        """Add an event; it replaces a waiting older one of the same object."""
        obj = event.object
        self._wait((objects.namespace_of(obj), objects.name_of(obj), objects.uid_of(obj)), event)

    def fail(self, error: BaseException) -> None:
        """Raise the error to the reader: no further event may come."""
        self._failure = error
        self._arrived.set()
        if self._list_limit is not None and not self._list_limit.expired():
            self._list_limit.reschedule(0.0)

    def relist_in(self, delay_s: float) -> None:
        """Request a list in `delay_s` seconds; of several requests the earliest counts."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._fire)

    def relist_if_in(self, delay_s: float, is_stale: Callable[[], bool]) -> None:
        """Request a list in `delay_s` seconds if `is_stale()` is true then; the last request counts."""
        if self._is_stale is not None:
            self._is_stale.cancel()
        self._is_stale = asyncio.get_running_loop().call_later(delay_s, self._fire_if, is_stale)

    def close(self) -> None:
        """Cancel all requests for lists."""
        for timer in (self._timer, self._is_stale):
            if timer is not None:
                timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._wait(None, None)

    def _wait(self, key: tuple[str, str, str] | None, event: ObjectEvent | None) -> None:
        self._waiting[key] = event
        self._arrived.set()

    def _fire_if(self, is_stale: Callable[[], bool]) -> None:
        if is_stale():
            self.relist_in(0.0)
