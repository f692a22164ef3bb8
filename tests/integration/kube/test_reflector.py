"""Lists and watches of a real API server as one stream of events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.list_watch import ListResult, ListWatch
from elasticjob_operator.errors import WatchStale
from elasticjob_operator.informers.reflector import Reflector
from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource
from testing.clocks.fake_clock import FakeClock
from testing.kube.manifests import pod_of_job
from testing.kube.namespace import Namespace
from testing.kube.silent_list_watch import SilentListWatch

pytestmark = pytest.mark.kube


class UnversionedListWatch(ListWatch):
    """Lists without a version, so that each watch begins with all objects."""

    async def list(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object, None]:
        async with aclosing(super().list(resource, result)) as items:
            async for item in items:
                yield item
        result.versions.clear()


class Pods:
    """The pods of one namespace."""

    def __init__(self, namespace: str, connection: Connection) -> None:
        self.cluster = KubeCluster(connection)
        self.clock = FakeClock()
        self._namespace = namespace
        self._connection = connection

    async def create(self, *names: str) -> None:
        for name in names:
            await self.cluster.create(Resource.POD, pod_of_job(self._namespace, name))

    async def delete(self, name: str) -> None:
        await self.cluster.delete(Resource.POD, self._namespace, name)

    def reflector(self, source: type[ListWatch] = ListWatch) -> Reflector:
        """Return a reflector of the pods."""
        listing = source(self._connection, (self._namespace,), page_size=2)
        return Reflector(listing, Resource.POD, clock=self.clock, relist_delay_s=0.0)


@pytest.fixture
async def pods(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pods]:
    monkeypatch.setenv("KUBECONFIG", str(namespace.server.kubeconfig()))
    connection = await Connection.open()
    yield Pods(namespace.name, connection)
    await connection.close()


async def following(stream: AsyncGenerator[ObjectEvent, None]) -> tuple[Change, str]:
    """Return the next event and the name of its object."""
    event = await asyncio.wait_for(anext(stream), 20)
    return event.change, event.object.get("metadata", {}).get("name", "")


async def listed(stream: AsyncGenerator[ObjectEvent, None]) -> list[str]:
    """Return names up to SYNCED."""
    found = []
    while (event := await following(stream))[0] is not Change.SYNCED:
        assert event[0] is Change.LISTED
        found.append(event[1])
    return found


async def test_a_list_of_several_pages_is_complete(pods: Pods) -> None:
    await pods.create(*"abcde")
    async with aclosing(pods.reflector().events()) as stream:
        assert await listed(stream) == list("abcde")


async def test_the_next_list_lacks_objects_whose_deletion_was_not_delivered(pods: Pods) -> None:
    await pods.create("a", "b")
    reflector = pods.reflector(SilentListWatch)
    async with aclosing(reflector.events()) as stream:
        assert await listed(stream) == ["a", "b"]
        await pods.delete("a")
        reflector.request_list()
        assert await listed(stream) == ["b"]


async def test_a_watch_that_never_delivers_listed_objects_is_stale(pods: Pods) -> None:
    reflector = pods.reflector(SilentListWatch)
    async with aclosing(reflector.events()) as stream:
        assert await listed(stream) == []
        await pods.create("a")
        reflector.request_list()
        assert await listed(stream) == ["a"]
        pods.clock.now_s += DELIVERY_TIMEOUT_S
        reflector.request_list()
        with pytest.raises(WatchStale, match="the watch of pods has not shown 1 for 120 s: a"):
            await listed(stream)


async def test_the_watch_begins_where_the_first_list_ends(pods: Pods) -> None:
    wanted = [f"p{n}" for n in range(5)]
    await pods.create(*wanted)
    reflector = pods.reflector()
    async with aclosing(reflector.events()) as stream:
        assert await listed(stream) == wanted
        await pods.create("later")
        assert await following(stream) == (Change.ADDED, "later"), "no object comes twice"
        pods.clock.now_s += 2 * DELIVERY_TIMEOUT_S
        reflector.request_list()
        assert await listed(stream) == ["later", *wanted], "no object of the first list proves that the watch is stale"
        await pods.delete("p0")
        while (await following(stream))[0] is not Change.DELETED:
            pass


async def test_a_watch_that_begins_anew_requests_a_list(pods: Pods) -> None:
    await pods.create("a")
    async with aclosing(pods.reflector(UnversionedListWatch).events()) as stream:
        assert await listed(stream) == ["a"]
        found = {await following(stream) for _ in range(3)}
    assert found == {(Change.ADDED, "a"), (Change.LISTED, "a"), (Change.SYNCED, "")}
