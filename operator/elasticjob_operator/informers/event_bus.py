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

SETTLE_S = 2.0
"""A watch that begins anew delivers all objects one by one; the list that follows it waits for most of them."""


class Subscription:
    """Changes of one kind; `get` gives None when it is time to list again."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str, str] | None, ObjectEvent | None] = OrderedDict()
        """By object, in the order in which each began to wait; None for the wish to list."""
        self._arrived = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._doubt: asyncio.TimerHandle | None = None

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

    def list_again_in(self, delay_s: float) -> None:
        """Ask for a list in `delay_s` seconds; of several wishes the earliest counts."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._ring)

    def doubt_in(self, delay_s: float, doubt: Callable[[], bool]) -> None:
        """Ask for a list in `delay_s` seconds if there is doubt then; the last wish counts."""
        if self._doubt is not None:
            self._doubt.cancel()
        self._doubt = asyncio.get_running_loop().call_later(delay_s, self._ring_if, doubt)

    def close(self) -> None:
        """No more asking."""
        for timer in (self._timer, self._doubt):
            if timer is not None:
                timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._wait(None, None)

    def _wait(self, key: tuple[str, str, str] | None, event: ObjectEvent | None) -> None:
        self._waiting[key] = event
        self._arrived.set()

    def _ring_if(self, doubt: Callable[[], bool]) -> None:
        if doubt():
            self.list_again_in(0.0)


class Feed:
    """Changes by kind; for one event loop."""

    def __init__(self, *, settle_s: float = SETTLE_S) -> None:
        self._followers: dict[Resource, list[Subscription]] = defaultdict(list)
        self._begun: dict[Resource, asyncio.Future[Mapping[str, str]]] = {}
        self._settle_s = settle_s

    def put(self, resource: Resource, event: ObjectEvent) -> None:
        """Hand a change to all followers."""
        for follower in self._followers[resource]:
            follower.put(event)

    def listed(self, resource: Resource) -> None:
        """Ask the followers to list again: a watch has begun anew and does not report earlier deletions."""
        for follower in self._followers[resource]:
            follower.list_again_in(self._settle_s)

    def begin(self, resource: Resource, versions: Mapping[str, str]) -> None:
        """Note a follower's first list, of these versions by namespace: later changes are to be delivered."""
        if not (begun := self._beginning(resource)).done():
            begun.set_result(versions)

    async def begun(self, resource: Resource) -> Mapping[str, str]:
        """Wait for `begin`: before that nothing need be delivered."""
        return await asyncio.shield(self._beginning(resource))

    def _beginning(self, resource: Resource) -> "asyncio.Future[Mapping[str, str]]":
        return self._begun.setdefault(resource, asyncio.get_running_loop().create_future())

    @contextlib.contextmanager
    def subscribed(self, resource: Resource) -> Iterator[Subscription]:
        """Every change from now on."""
        follower = Subscription()
        self._followers[resource].append(follower)
        try:
            yield follower
        finally:
            self._followers[resource].remove(follower)
            follower.close()
