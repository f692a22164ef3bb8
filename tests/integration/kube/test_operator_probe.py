"""The liveness probe with a real API server: green while watches deliver changes, red when one is stale.

A watch is stale if its connection is open and no event arrives any more. In the first test watches connect and deliver
nothing. In the nightly test a proxy drops all events that the API server sends to an operator.
"""

import asyncio
import contextlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

import pytest

from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.handlers import OperatorTask
from elasticjob_operator.informers.reflector import Reflector
from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S
from elasticjob_operator.metrics.prometheus import CONTENT_TYPE, PrometheusRecorder
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.probes import ProbeServer, ProbeSources
from elasticjob_operator.settings import Settings
from testing.clocks.fake_clock import FakeClock
from testing.kube.faulty_operator import faulty_api_server
from testing.kube.jobs import waiting_job
from testing.kube.manifests import MINIMAL
from testing.kube.namespace import Namespace
from testing.kube.silent_list_watch import SilentListWatch
from testing.kube.stack import KubeStack
from testing.network.ports import unused_port
from testing.waiting import aeventually, eventually

pytestmark = pytest.mark.kube

SETTINGS = Settings(cluster_id="c", operator_id="o", etcd_endpoints=("etcd:2379",))


def probe(url: str) -> int:
    """Return the status of the response; 0 without one."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextlib.asynccontextmanager
async def operating(
    connection: Connection, reflectors: Mapping[Resource, Reflector], url: str
) -> AsyncIterator[OperatorTask]:
    """Run an operator that answers probes."""
    etcd, meter = InMemoryEtcd(InMemoryStore()), PrometheusRecorder()
    operator = Controller(
        KubeCluster(connection), etcd, SETTINGS, watch=lambda of: reflectors[of].events(), metrics=meter
    )

    async def prepare(*_: object) -> Coroutine[Any, Any, None]:
        return operator.run()

    running = OperatorTask(prepare, connection.credentials)
    sources = ProbeSources(
        running=lambda: running.is_alive,
        ready=lambda: operator.ready,
        leads=lambda: operator.is_leader,
        ages=meter.ages,
        metrics=meter.text,
        metrics_type=CONTENT_TYPE,
    )
    async with ProbeServer(url, sources):
        await running.start()
        try:
            yield running
        finally:
            await running.end()
            await etcd.close()


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[Connection]:
    connection = await Connection.open()
    try:
        yield connection
    finally:
        await connection.close()


async def test_the_probe_is_green_until_a_watch_is_stale(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(namespace.server.kubeconfig()))
    clock, url = FakeClock(), f"http://127.0.0.1:{unused_port()}/healthz"
    namespace.apply(MINIMAL)
    async with connected() as connection:
        source = SilentListWatch(connection, (namespace.name,))
        reflectors = {of: Reflector(source, of, clock=clock, relist_delay_s=0.0) for of in (Resource.JOB, Resource.POD)}
        async with operating(connection, reflectors, url) as running:
            await aeventually(lambda: cluster_has_pods(namespace), within_s=30, what="a pod: it is at work")
            reflectors[Resource.JOB].request_list()
            assert await asyncio.to_thread(probe, url) == 200, "a list alone says nothing"

            def ended() -> bool:
                clock.now_s += DELIVERY_TIMEOUT_S
                reflectors[Resource.JOB].request_list()
                return not running.is_alive

            await aeventually(ended, within_s=30, what="the end of its task")
            assert await asyncio.to_thread(probe, url) == 503
            assert "has not shown 1 for 120 s: digits" in repr(running.failure)


def cluster_has_pods(namespace: Namespace) -> bool:
    return bool(namespace.kubectl("get", "pods", "-o", "name"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_an_operator_whose_watches_deliver_nothing_ends_and_its_probe_is_red(rig: KubeStack) -> None:
    url = f"http://127.0.0.1:{unused_port()}/healthz"
    with faulty_api_server(rig, "--liveness", url) as proxy:
        eventually(lambda: probe(url) == 200, within_s=30, what="green")
        proxy.weather(mute=True)
        proxy.cut()
        rig.until("two watches", lambda: proxy.state("watching") >= 2)
        rig.create_job(waiting_job(rig))
        assert rig.operator is not None
        assert rig.operator.wait(within_s=800) == 1
        assert probe(url) == 0
        rig.operator.wait_for_output("the operator ends: the watch of ")
