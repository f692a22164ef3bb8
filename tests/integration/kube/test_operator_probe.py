"""The liveness probe against a real API server: green while the watches tell what there is, red when one is dead.

A watch is dead when its connection lives and nothing comes any more: in the first test nobody feeds it, by night a
proxy swallows all that the API server tells a whole operator.
"""

import asyncio
import contextlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import unused_port

from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.handlers import OperatorTask
from elasticjob_operator.informers.event_bus import EventBus
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
from testing.kube.stack import KubeStack
from testing.waiting import aeventually, eventually

pytestmark = pytest.mark.kube

SETTINGS = Settings(cluster_id="c", operator_id="o", etcd_endpoints=("etcd:2379",))


def probe(url: str) -> int:
    """The status of the answer; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextlib.asynccontextmanager
async def operating(cluster: KubeCluster, url: str) -> AsyncIterator[OperatorTask]:
    """An operator that answers probes, and whose watches nobody feeds."""
    etcd, meter = InMemoryEtcd(InMemoryStore()), PrometheusRecorder()
    operator = Controller(cluster, etcd, SETTINGS, metrics=meter)
    running = OperatorTask(operator.run, cluster.credentials)
    sources = ProbeSources(
        running=lambda: running.is_alive,
        ready=lambda: operator.ready,
        leads=lambda: operator.is_leader,
        ages=meter.ages,
        metrics=meter.text,
        metrics_type=CONTENT_TYPE,
    )
    async with ProbeServer(url, sources):
        running.task = asyncio.create_task(operator.run())
        running.task.add_done_callback(running.ended)
        try:
            yield running
        finally:
            running.task.cancel()
            await asyncio.wait([running.task])
            await etcd.close()


@contextlib.asynccontextmanager
async def closing(cluster: KubeCluster) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await cluster.close()


async def test_the_probe_is_green_until_a_watch_is_dead(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(namespace.server.kubeconfig()))
    feed, clock, url = EventBus(relist_delay_s=0.0), FakeClock(), f"http://127.0.0.1:{unused_port()}/healthz"
    namespace.apply(MINIMAL)
    cluster = await KubeCluster.connect(feed, (namespace.name,), clock=clock)
    async with closing(cluster), operating(cluster, url) as running:
        await aeventually(lambda: cluster_has_pods(namespace), within_s=30, what="a pod: it is at work")
        feed.mark_listed(Resource.JOB)
        assert await asyncio.to_thread(probe, url) == 200, "a list alone says nothing"

        def ended() -> bool:
            clock.now_s += DELIVERY_TIMEOUT_S
            feed.mark_listed(Resource.JOB)
            return not running.is_alive

        await aeventually(ended, within_s=30, what="the end of its task")
        assert await asyncio.to_thread(probe, url) == 503
        assert "has not shown 1 for 120 s: digits" in repr(running.failure)


def cluster_has_pods(namespace: Namespace) -> bool:
    return bool(namespace.kubectl("get", "pods", "-o", "name"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_an_operator_whose_watches_tell_nothing_ends_and_its_probe_is_red(rig: KubeStack) -> None:
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
