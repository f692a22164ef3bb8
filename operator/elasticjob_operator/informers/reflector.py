"""The list and the watches of all jobs, or of all pods: one stream of events for a cache.

Each object is reduced to the needed fields as soon as it arrives. A whole list of ten thousand pods, or of a few dozen
very large jobs, would fill the operator's memory.

The watches begin where the first list ends, so no change is missed and no object comes twice. A list from time to time
shows changes that a watch has missed, and proves that it still delivers.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from elasticjob_operator.cluster.api_errors import KindNotFound, ResourceExpired
from elasticjob_operator.cluster.list_watch import ListResult, ListWatch
from elasticjob_operator.cluster.log_limit import LogRateLimiter
from elasticjob_operator.errors import ClusterError, Forbidden, WatchStale
from elasticjob_operator.informers.event_queue import EventQueue
from elasticjob_operator.informers.retained_jobs import RetainedJobs
from elasticjob_operator.informers.transform import strip
from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S, StalenessDetector
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource, Watch

RELIST_S = 300.0
"""Time between two lists without a cause; each shows changes that the watch has missed."""
_RELIST_DELAY_S = 2.0
"""Delay of the list after a watch began anew; most objects, delivered one by one, have arrived by then."""
_RETRY_DELAYS_S = (0.2, 0.5, 1.0)
"""Delay before the next attempt, by the number of consecutive failures; the last one repeats."""
_FORBIDDEN_RETRY_DELAYS_S = (*_RETRY_DELAYS_S, 2.0, 5.0, 10.0)
"""The same for a namespace that the operator may not watch; it may be deleted for ever."""

log = logging.getLogger(__name__)


class Reflector:
    """The events of one kind of object in the watched namespaces; for one reader."""

    def __init__(
        self,
        source: ListWatch,
        resource: Resource,
        *,
        retained_jobs: RetainedJobs | None = None,
        clock: Callable[[], float] = time.monotonic,
        relist_delay_s: float = _RELIST_DELAY_S,
    ) -> None:
        """Create the reflector; no request is sent. With `retained_jobs`, objects are jobs, kept within that memory."""
        self._source = source
        self._resource = resource
        self._retained_jobs = retained_jobs
        self._clock = clock
        self._relist_delay_s = relist_delay_s
        self._staleness = StalenessDetector()
        self._queue = EventQueue()
        self._versions = dict.fromkeys(source.namespaces, "")
        """The last delivered version of each namespace; empty if the watch begins with all objects."""
        self._log_limit = LogRateLimiter(clock)

    def request_list(self) -> None:
        """List again soon: a watch that began anew does not report earlier deletions."""
        self._queue.relist_in(self._relist_delay_s)

    async def events(self) -> AsyncGenerator[ObjectEvent, None]:
        """Return all objects (a list by quorum), then each change; list again from time to time.

        Raises:
            WatchStale: a watch did not deliver objects that a list showed, or the CRD was deleted.
        """
        watches = list[asyncio.Task[None]]()
        try:
            while True:
                listed, result = list[Object](), ListResult()
                async with contextlib.aclosing(self._list(listed, result)) as events:
                    while (event := await self._queue.next_of(events)) is not None:
                        yield event
                missed_deletions = result.was_interrupted and not watches
                if not watches:
                    watches += self._start_watches(listed, result)
                self._require_delivered(listed, result)
                yield ObjectEvent(Change.SYNCED, {}, unlisted=frozenset(result.forbidden))
                # Deletions during an interrupted first list are not delivered, so another list follows it soon.
                self._queue.relist_in(self._relist_delay_s if missed_deletions else RELIST_S)
                self._queue.relist_if_in(DELIVERY_TIMEOUT_S, self._staleness.is_suspect)
                while (change := await self._queue.get()) is not None:
                    self._staleness.delivered(change)
                    yield change
        finally:
            self._queue.close()
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def _list(self, listed: list[Object], result: ListResult) -> AsyncGenerator[ObjectEvent, None]:
        """Return each object of a list; `listed` is filled with their identities only, because a list may be large."""
        retained = self._retained_jobs
        retained_before = set[str]() if retained is None else retained.uids()
        async with contextlib.aclosing(self._source.list(self._resource, result)) as items:
            async for item in items:
                listed.append(objects.identity(item))
                yield ObjectEvent(Change.LISTED, self._reduce(item))
        if retained is not None:
            unlisted = retained_before - set(map(objects.uid_of, listed))
            retained.drop_all(unlisted - self._staleness.delivered_in(result.forbidden))

    def _start_watches(self, listed: list[Object], result: ListResult) -> list[asyncio.Task[None]]:
        self._staleness.start(listed)
        self._versions.update(result.versions)
        return [self._start_watch(namespace) for namespace in self._source.namespaces]

    def _start_watch(self, namespace: str) -> asyncio.Task[None]:
        name = f"{self._resource.value} of {namespace or 'all namespaces'}"
        task = asyncio.create_task(self._watch(namespace), name=name)
        task.add_done_callback(self._watch_ended)
        return task

    def _watch_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._queue.fail(error)

    def _require_delivered(self, listed: list[Object], result: ListResult) -> None:
        if undelivered := self._staleness.undelivered(listed, self._clock(), result.forbidden):
            example, count = undelivered[0], len(undelivered)
            raise WatchStale(
                f"the watch of {self._resource.value} has not shown {count} for {DELIVERY_TIMEOUT_S:g} s: {example}, …"
            )

    async def _watch(self, namespace: str) -> None:
        """Watch until cancelled; after an error continue at the last version, or from the beginning if it has expired.

        Raises:
            WatchStale: the CRD was deleted.
        """
        failures = 0
        while True:
            try:
                await self._watch_once(namespace)
                failures = 0
            except KindNotFound as error:
                stale = f"{self._resource.value} cannot be watched any more, so the operator must restart"
                raise WatchStale(f"{stale}: {error}") from error
            except ClusterError as error:
                if isinstance(error, ResourceExpired):
                    self._versions[namespace] = ""
                elif self._log_limit.allow(str(error)):  # during an outage an attempt fails each second
                    log.warning("cannot watch, trying again: %s", error)
                pauses_s = _FORBIDDEN_RETRY_DELAYS_S if isinstance(error, Forbidden) else _RETRY_DELAYS_S
                await asyncio.sleep(pauses_s[min(failures, len(pauses_s) - 1)])
                failures += 1

    async def _watch_once(self, namespace: str) -> None:
        """Queue the changes of one connection until it ends, beginning at the last delivered version."""
        version = self._versions[namespace]
        async with contextlib.aclosing(self._source.watch(self._resource, namespace, version)) as stream:
            async for kind, obj in stream:
                if kind == "CONNECTED":
                    if not version:
                        self.request_list()
                    continue
                # Initial objects arrive in no order: before the first bookmark no version marks a position.
                if kind == "BOOKMARK" or self._versions[namespace]:
                    self._versions[namespace] = objects.version_of(obj)
                if kind != "BOOKMARK":
                    self._queue.put(ObjectEvent(Change[kind], self._reduce(obj, deleted=kind == "DELETED")))
                del obj  # the next event may be far away, and a whole object is large

    def _reduce(self, obj: Object, *, deleted: bool = False) -> Object:
        """Return the part of an object that is cached, or that is needed of a deleted one."""
        if self._retained_jobs is None:
            return strip(self._resource, obj)
        if deleted:
            self._retained_jobs.drop(obj)
            return objects.identity(obj)  # the event may wait long, and its content is not needed
        return self._retained_jobs.retain(strip(self._resource, obj))


def watch_with(source: ListWatch, *, jobs_memory: int) -> Watch:
    """Return the function that watches a kind of object of an API server; its jobs use that many bytes at most."""

    def watch(resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        retained_jobs = RetainedJobs(jobs_memory) if resource is Resource.JOB else None
        return Reflector(source, resource, retained_jobs=retained_jobs).events()

    return watch
