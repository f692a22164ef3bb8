"""Delivers changes from the watches of the API server to the subscribers of a kind, the newest of each object.

A watch must not wait for its followers, so a feed never blocks and never refuses. Only the newest version of an object
waits, however often it changes. Changes before the first subscription are dropped: a follower begins with a list of its
own, made after it has subscribed. A watch that had to begin anew does not report deletions in between. So a follower is
asked, now and then, to list again.
"""

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import ObjectEvent, Resource

RELIST_DELAY_S = 2.0
"""A watch that begins anew delivers all objects one by one; the list that follows it waits for most of them."""


class Subscription:
    """Changes of one kind; `get` gives None when it is time to list again."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str, str] | None, ObjectEvent | None] = OrderedDict()
        """By object, in the order in which each began to wait; None for the wish to list."""
        self._arrived = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stale: asyncio.TimerHandle | None = None

    async def get(self) -> ObjectEvent | None:
        """The next change, or None: list again."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popitem(last=False)[1]

    def put(self, event: ObjectEvent) -> None:
        """A change; it takes the place of an older one of the same object that still waits."""
        obj = event.object
        self._wait((objects.namespace_of(obj), objects.name_of(obj), objects.uid_of(obj)), event)

    def relist_in(self, delay_s: float) -> None:
        """Ask for a list in `delay_s` seconds; of several wishes the earliest counts."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._fire)

    def relist_if_in(self, delay_s: float, is_stale: Callable[[], bool]) -> None:
        """Ask for a list in `delay_s` seconds if there is doubt then; the last wish counts."""
        if self._is_stale is not None:
            self._is_stale.cancel()
        self._is_stale = asyncio.get_running_loop().call_later(delay_s, self._fire_if, is_stale)

    def close(self) -> None:
        """No more asking."""
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
        """Hand a change to all followers."""
        for follower in self._subscribers[resource]:
            follower.put(event)

    def mark_listed(self, resource: Resource) -> None:
        """Ask the followers to list again: a watch has begun anew and does not report earlier deletions."""
        for follower in self._subscribers[resource]:
            follower.relist_in(self._relist_delay_s)

    def start(self, resource: Resource, versions: Mapping[str, str]) -> None:
        """Note a follower's first list, of these versions by namespace: later changes are to be delivered."""
        if not (begun := self._start_of(resource)).done():
            begun.set_result(versions)

    async def has_started(self, resource: Resource) -> Mapping[str, str]:
        """Wait for `start`: before that nothing need be delivered."""
        return await asyncio.shield(self._start_of(resource))

    def _start_of(self, resource: Resource) -> "asyncio.Future[Mapping[str, str]]":
        return self._listed_resources.setdefault(resource, asyncio.get_running_loop().create_future())

    @contextlib.contextmanager
    def subscribe(self, resource: Resource) -> Iterator[Subscription]:
        """Every change from now on."""
        follower = Subscription()
        self._subscribers[resource].append(follower)
        try:
            yield follower
        finally:
            self._subscribers[resource].remove(follower)
            follower.close()
