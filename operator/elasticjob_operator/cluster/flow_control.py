"""Limits for concurrent requests to the API server, with priority for requests that jobs wait for.

Writes of statuses and events have a separate, smaller limit. It shrinks while the limit of the other requests is
reached, so these writes cannot delay the creation of pods. For one event loop; the clock is monotonic, in seconds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from elasticjob_operator.model.cluster_interface import Resource

_HIGH, _LOW, _LOW_WHEN_SATURATED = 28, 4, 2
"""Concurrent requests: those that jobs wait for; writes of statuses and events; the same during saturation."""
_SATURATION_S = 0.5
"""Time for which saturation lasts after the first limit was reached, and the interval of status writes during it.

A status costs the API server as much as four pods do."""
_LOW_PRIORITY = frozenset({Resource.JOB, Resource.EVENT})


class FlowControl:
    """The limits of one API server. In the client library's queue, requests of a thousand jobs would time out."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._high, self._low = asyncio.Semaphore(_HIGH), asyncio.Semaphore(_LOW)
        self._low_when_saturated = asyncio.Semaphore(_LOW_WHEN_SATURATED)
        self._full_s = self._low_sent_s = float("-inf")
        """When the first limit was last reached, and when a status or an event was last sent."""

    @contextlib.asynccontextmanager
    async def of(self, resource: Resource | None) -> AsyncIterator[None]:
        """Wait for capacity for a request about the resource, and hold it while entered; a Lease does not wait."""
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
        self._low_sent_s = self._clock()
        async with self._low, self._low_when_saturated if full else contextlib.nullcontext():
            yield

    def is_saturated(self) -> bool:
        """Return whether a status write would delay jobs now; the caller should write a newer status later."""
        now_s = self._clock()
        if not self._high.locked() and now_s >= self._full_s + _SATURATION_S:
            return False
        return self._low_when_saturated.locked() or now_s < self._low_sent_s + _SATURATION_S
