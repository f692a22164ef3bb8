"""How many requests go to the API server at once, and whether there is a crowd: what jobs wait for goes first.

Writes of statuses and events have a smaller limit of their own. It shrinks while requests for pods and services wait,
so they cannot delay the creation of pods. For one event loop; the clock is monotonic, in seconds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from elasticjob_operator.model.cluster_interface import Resource

_HIGH, _LOW, _LOW_WHEN_SATURATED = 28, 4, 2
"""Requests on their way at the same time: those that jobs wait for; what is told; what is told in a crowd."""
_SATURATION_S = 0.5
"""So long after what jobs wait for took all its room there is a crowd. In one, a status is told each so many seconds:
it costs the API server as much as four pods do."""
_LOW_PRIORITY = frozenset({Resource.JOB, Resource.EVENT})


class FlowControl:
    """Of one API server. In the library's own queue the requests of a thousand jobs would run out of time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._high, self._low = asyncio.Semaphore(_HIGH), asyncio.Semaphore(_LOW)
        self._low_when_saturated = asyncio.Semaphore(_LOW_WHEN_SATURATED)
        self._full_s = self._logged_s = float("-inf")
        """When what jobs wait for last took all its room, and when something was last told."""

    @contextlib.asynccontextmanager
    async def of(self, resource: Resource | None) -> AsyncIterator[None]:
        """Wait until a request about it may go; it goes while this is entered. A Lease cannot wait."""
        if resource is Resource.LEASE:
            yield
            return
        full = self._high.locked()
        if full:
            self._full_s = self._clock()
        if resource not in _LOW_PRIORITY:
            async with self._high:
                yield
            return
        self._logged_s = self._clock()
        async with self._low, self._low_when_saturated if full else contextlib.nullcontext():
            yield

    def is_saturated(self) -> bool:
        """What would be told now would keep jobs waiting: whoever can say it later, and newer, should."""
        now_s = self._clock()
        if not self._high.locked() and now_s >= self._full_s + _SATURATION_S:
            return False
        return self._low_when_saturated.locked() or now_s < self._logged_s + _SATURATION_S
