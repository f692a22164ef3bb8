"""Delivers changes from the watches of the API server to the subscribers of a kind, the newest of each object.

A watch must not wait for its subscribers, so publishing never blocks and never fails. Only the newest version of an
object waits for a subscriber. Changes before the first subscription are dropped: a subscriber lists after it has
subscribed. A watch that began anew does not report earlier deletions, so subscribers are asked from time to time to
list again.
"""

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import ObjectEvent, Resource

RELIST_DELAY_S = 2.0
"""Delay of the list after a watch began anew; most objects, delivered one by one, have arrived by then."""


class Subscription:
    """Changes of one kind; `get` returns None when it is time to list again."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str, str] | None, ObjectEvent | None] = OrderedDict()
        """Changes by object, in the order in which they began to wait; the key None requests a list."""
        self._arrived = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stale: asyncio.TimerHandle | None = None

    async def get(self) -> ObjectEvent | None:
        """Wait for the next change and return it; None requests a list."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popitem(last=False)[1]

    def put(self, event: ObjectEvent) -> None:
        """Add a change; it replaces a waiting older one of the same object."""
        obj = event.object
        self._wait((objects.namespace_of(obj), objects.name_of(obj), objects.uid_of(obj)), event)

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


class EventBus:
    """Changes by kind; for one event loop."""

    def __init__(self, *, relist_delay_s: float = RELIST_DELAY_S) -> None:
        self._subscribers: dict[Resource, list[Subscription]] = defaultdict(list)
        self._listed_resources: dict[Resource, asyncio.Future[Mapping[str, str]]] = {}
        self._relist_delay_s = relist_delay_s

    def publish(self, resource: Resource, event: ObjectEvent) -> None:
        """Deliver a change to all subscribers."""
        for subscriber in self._subscribers[resource]:
            subscriber.put(event)

    def mark_listed(self, resource: Resource) -> None:
        """Request a list from all subscribers: a watch began anew and does not report earlier deletions."""
        for subscriber in self._subscribers[resource]:
            subscriber.relist_in(self._relist_delay_s)

    def start(self, resource: Resource, versions: Mapping[str, str]) -> None:
        """Record the versions of a subscriber's first list, by namespace; the watch delivers later changes."""
        if not (begun := self._start_of(resource)).done():
            begun.set_result(versions)

    async def wait_started(self, resource: Resource) -> Mapping[str, str]:
        """Wait for `start`, and return its versions."""
        return await asyncio.shield(self._start_of(resource))

    def _start_of(self, resource: Resource) -> "asyncio.Future[Mapping[str, str]]":
        return self._listed_resources.setdefault(resource, asyncio.get_running_loop().create_future())

    @contextlib.contextmanager
    def subscribe(self, resource: Resource) -> Iterator[Subscription]:
        """Return a subscription to every change from now on; it ends with the context."""
        subscriber = Subscription()
        self._subscribers[resource].append(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers[resource].remove(subscriber)
            subscriber.close()
