"""How many requests go to the API server at once, and whether there is a crowd: what jobs wait for goes first.

Writes of statuses and events have a smaller limit of their own. It shrinks while requests for pods and services wait,
so they cannot delay the creation of pods. For one event loop; the clock is monotonic, in seconds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from elasticjob_operator.model.cluster_interface import Resource

_ACTING, _TELLING, _WHISPERING = 28, 4, 2
"""Requests on their way at the same time: those that jobs wait for; what is told; what is told in a crowd."""
_CROWD_S = 0.5
"""So long after what jobs wait for took all its room there is a crowd. In one, a status is told each so many seconds:
it costs the API server as much as four pods do."""
_TOLD = frozenset({Resource.JOB, Resource.EVENT})


class Room:
    """Of one API server. In the library's own queue the requests of a thousand jobs would run out of time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._acting, self._telling = asyncio.Semaphore(_ACTING), asyncio.Semaphore(_TELLING)
        self._whispering = asyncio.Semaphore(_WHISPERING)
        self._full_s = self._told_s = float("-inf")
        """When what jobs wait for last took all its room, and when something was last told."""

    @contextlib.asynccontextmanager
    async def of(self, resource: Resource | None) -> AsyncIterator[None]:
        """Wait until a request about it may go; it goes while this is entered. A Lease cannot wait."""
        if resource is Resource.LEASE:
            yield
            return
        full = self._acting.locked()
        if full:
            self._full_s = self._clock()
        if resource not in _TOLD:
            async with self._acting:
                yield
            return
        self._told_s = self._clock()
        async with self._telling, self._whispering if full else contextlib.nullcontext():
            yield

    def crowded(self) -> bool:
        """What would be told now would keep jobs waiting: whoever can say it later, and newer, should."""
        now_s = self._clock()
        if not self._acting.locked() and now_s >= self._full_s + _CROWD_S:
            return False
        return self._whispering.locked() or now_s < self._told_s + _CROWD_S
