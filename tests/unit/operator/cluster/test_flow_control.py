"""Concurrent requests to the API server: those that jobs wait for come first, and fewer statuses are written then."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from kubernetes.aio import client

from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.sockets import SocketFactory
from elasticjob_operator.model.cluster_interface import Resource
from testing.clocks.fake_clock import FakeClock
from testing.waiting import aeventually

ANSWERS_AFTER_S = 0.05


@dataclass
class Server:
    """A server that holds every creation of a pod until `go`, and counts concurrent statuses."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    creating: int = 0
    written: int = 0
    telling: int = 0
    most_telling: int = 0
    holds_statuses: bool = False

    async def create(self, _request: web.Request) -> web.Response:
        self.creating += 1
        await self.go.wait()
        return web.json_response({})

    async def read(self, _request: web.Request) -> web.Response:
        return web.json_response({})

    async def write_status(self, request: web.Request) -> web.Response:
        self.telling += 1
        self.most_telling = max(self.most_telling, self.telling)
        await request.read()
        if self.holds_statuses:
            await self.go.wait()
        await asyncio.sleep(ANSWERS_AFTER_S)  # long enough for other requests to arrive
        self.telling -= 1
        self.written += 1
        return web.json_response({})


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def connection(server: Server, clock: FakeClock) -> AsyncIterator[Connection]:
    app = web.Application()
    app.router.add_post("/{path:.*}", server.create)
    app.router.add_get("/{path:.*}", server.read)
    app.router.add_patch("/{path:.*}", server.write_status)
    app.router.add_put("/{path:.*}", server.write_status)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    made = Connection(client.ApiClient(settings), SocketFactory(), clock=clock)
    yield made
    await made.close()
    await runner.cleanup()


@pytest.fixture
def cluster(connection: Connection) -> KubeCluster:
    return KubeCluster(connection)


async def test_few_statuses_are_written_while_pods_use_the_whole_limit(cluster: KubeCluster, server: Server) -> None:
    pods = [{"metadata": {"name": f"p{n}", "namespace": "ns"}} for n in range(40)]
    async with asyncio.TaskGroup() as tasks:
        for pod in pods:
            tasks.create_task(cluster.create(Resource.POD, pod))
        await aeventually(lambda: server.creating >= 28, what="as many as may go at once")
        for n in range(20):
            tasks.create_task(cluster.patch_status(Resource.JOB, "ns", f"j{n}", {}))
        await aeventually(lambda: server.written == 20, what="all written although no pod is created")
        assert (server.creating, server.most_telling) == (28, 2)
        server.go.set()
    assert server.creating == 40


async def test_a_lease_is_renewed_while_pods_use_the_whole_limit(cluster: KubeCluster, server: Server) -> None:
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(cluster.create(Resource.POD, {"metadata": {"name": f"p{n}", "namespace": "ns"}}))
        await aeventually(lambda: server.creating >= 28, what="as many as may go at once")
        await cluster.replace(Resource.LEASE, {"metadata": {"name": "operator", "namespace": "ns"}})
        assert server.creating == 28
        server.go.set()


async def test_a_job_is_read_while_statuses_use_their_whole_limit(cluster: KubeCluster, server: Server) -> None:
    """A job waits for that read before its first slot map."""
    server.holds_statuses = True
    async with asyncio.TaskGroup() as tasks:
        for n in range(20):
            tasks.create_task(cluster.patch_status(Resource.JOB, "ns", f"j{n}", {}))
        await aeventually(lambda: server.telling == 4, what="as many as may go at once")
        async with asyncio.timeout(20.0):
            await cluster.get(Resource.JOB, "ns", "j")
        assert server.written == 0
        server.go.set()


async def test_statuses_are_written_at_intervals_during_saturation_and_at_once_after_it(
    connection: Connection, cluster: KubeCluster, server: Server, clock: FakeClock
) -> None:
    assert not connection.is_saturated()
    async with asyncio.TaskGroup() as tasks:
        for n in range(40):
            tasks.create_task(cluster.create(Resource.POD, {"metadata": {"name": f"p{n}", "namespace": "ns"}}))
        await aeventually(lambda: server.creating >= 28, what="as many as may go at once")
        assert not connection.is_saturated(), "nothing was written yet"
        await cluster.patch_status(Resource.JOB, "ns", "j", {})
        assert connection.is_saturated()
        clock.now_s += 0.5
        assert not connection.is_saturated(), "the next one may be written"
        await cluster.patch_status(Resource.JOB, "ns", "j", {})
        server.go.set()
    assert connection.is_saturated(), "there was no room a moment ago"
    clock.now_s += 0.5
    await cluster.patch_status(Resource.JOB, "ns", "j", {})
    assert not connection.is_saturated()
