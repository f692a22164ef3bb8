"""The reflector with lists and watches that a test decides."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from elasticjob_operator.cluster.api_errors import KindNotFound
from elasticjob_operator.cluster.list_watch import ListResult, ListWatch
from elasticjob_operator.errors import ClusterUnavailable, WatchStale
from elasticjob_operator.informers import reflector
from elasticjob_operator.informers.reflector import Reflector
from elasticjob_operator.informers.retained_jobs import RetainedJobs
from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource
from testing.clocks.fake_clock import FakeClock

ATTEMPTS = 30


def obj(name: str, version: str = "1", **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": version}, **fields}


class Source:
    """An API server that lists some objects, and whose watches deliver some changes or fail."""

    namespaces = ("",)

    def __init__(self, *listed: Object, changes: tuple[tuple[str, Object], ...] = (), failures: Any = ()) -> None:
        self.listed = listed
        self.changes = changes
        self.failures = iter(failures)
        self.attempts: list[str] = []
        self.enough = asyncio.Event()

    async def list(self, _resource: Resource, result: ListResult) -> AsyncGenerator[Object]:
        """Return the objects at version 7."""
        for each in self.listed:
            yield each
        result.versions[""] = "7"

    async def watch(self, _resource: Resource, _namespace: str, version: str) -> AsyncGenerator[tuple[str, Object]]:
        """Raise the next error if there is one; otherwise deliver all changes."""
        self.attempts.append(version)
        if len(self.attempts) == ATTEMPTS:
            self.enough.set()
        if (error := next(self.failures, None)) is not None:
            raise error
        yield "CONNECTED", {}
        for change in self.changes:
            yield change
        await asyncio.Event().wait()

    def reflector(self, resource: Resource = Resource.POD, **options: Any) -> Reflector:
        """Return a reflector of this source."""
        return Reflector(cast("ListWatch", self), resource, **options)


async def events(of: Reflector, count: int) -> list[ObjectEvent]:
    """Return the first events."""
    async with asyncio.timeout(20), contextlib.aclosing(of.events()) as stream:
        return [await anext(stream) for _ in range(count)]


async def test_changes_follow_the_list_from_its_version() -> None:
    source = Source(obj("a"), changes=(("MODIFIED", obj("a", "8")), ("BOOKMARK", obj("", "9"))))
    first, synced, change = await events(source.reflector(), 3)
    assert (first.change, synced.change, change.change) == (Change.LISTED, Change.SYNCED, Change.MODIFIED)
    assert change.object["metadata"]["resourceVersion"] == "8"
    assert source.attempts == ["7"]


async def test_only_the_identity_of_a_deleted_job_waits_for_delivery() -> None:
    source = Source(changes=(("DELETED", obj("j", "8", spec={"replicas": 1})),))
    _, deleted = await events(source.reflector(Resource.JOB, retained_jobs=RetainedJobs()), 2)
    assert (deleted.change, deleted.object) == (Change.DELETED, obj("j", "8"))


async def relist(of: Reflector, on_list: Callable[[], bool]) -> None:
    """List again and again while `on_list` is true after a list."""
    async with asyncio.timeout(20), contextlib.aclosing(of.events()) as stream:
        async for event in stream:
            if event.change is Change.SYNCED:
                if not on_list():
                    return
                of.request_list()


async def test_a_watch_that_does_not_deliver_a_listed_object_is_stale() -> None:
    source, clock = Source(), FakeClock()

    def create() -> bool:
        source.listed = (obj("a"),)
        clock.now_s += DELIVERY_TIMEOUT_S
        return True

    with pytest.raises(WatchStale, match="the watch of pods has not shown 1 for 120 s: a"):
        await relist(source.reflector(clock=clock, relist_delay_s=0.0), create)


async def test_the_memory_of_a_job_is_free_once_a_list_lacks_it() -> None:
    retained, source = RetainedJobs(), Source(obj("j", spec={"replicas": 1}))
    lists = list[set[str]]()

    def delete() -> bool:
        lists.append(retained.uids())
        source.listed = ()
        return len(lists) < 2

    await relist(source.reflector(Resource.JOB, retained_jobs=retained, relist_delay_s=0.0), delete)
    assert lists == [{"u-j"}, set()]


async def test_an_outage_is_logged_once_for_each_kind_of_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reflector, "_RETRY_DELAYS_S", (0.0,))
    outage = [ClusterUnavailable("reset" if attempt % 2 else "refused") for attempt in range(1, 2 * ATTEMPTS)]
    source = Source(failures=outage)
    reading = asyncio.create_task(events(source.reflector(), 2))
    await source.enough.wait()
    reading.cancel()
    await asyncio.wait({reading})
    assert [record.getMessage() for record in caplog.records] == [
        "cannot watch, trying again: reset",
        "cannot watch, trying again: refused",
    ]


async def test_a_deleted_crd_ends_the_events() -> None:
    source = Source(obj("a"), failures=[KindNotFound("404")])
    with pytest.raises(WatchStale, match="pods cannot be watched any more, so the operator must restart: 404"):
        await events(source.reflector(), 3)


class ListOutage(Source):
    """An API server whose second list never ends; its watch fails meanwhile."""

    def __init__(self, error: Exception) -> None:
        super().__init__(obj("a"))
        self.error = error
        self.lists = 0
        self.is_listing = asyncio.Event()

    async def list(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object]:
        self.lists += 1
        if self.lists > 1:
            self.is_listing.set()
            await asyncio.Event().wait()
        async for each in super().list(resource, result):
            yield each

    async def watch(self, *_of: object) -> AsyncGenerator[tuple[str, Object]]:
        yield "CONNECTED", {}
        await self.is_listing.wait()
        yield "DELETED", obj("a", "8")
        raise self.error


@pytest.mark.parametrize(
    ("error", "raised"), [(KindNotFound("404"), WatchStale), (ValueError("no JSON"), ValueError)], ids=["crd", "fault"]
)
async def test_a_watch_that_fails_during_a_list_ends_the_events(error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised, match=str(error)):
        await relist(ListOutage(error).reflector(relist_delay_s=0.0), lambda: True)


async def test_no_watch_remains_after_the_last_event() -> None:
    before = asyncio.all_tasks()
    await events(Source(changes=(("ADDED", obj("a")),)).reflector(), 2)
    assert asyncio.all_tasks() == before
