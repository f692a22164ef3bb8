"""A full etcd: every job's status names it until etcd has space again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.maintenance import EtcdMaintenance
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.maintenance.space import EtcdSpaceKeeper
from elasticjob_operator.maintenance.tasks import EtcdTasks
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.objects import is_terminating, name_of, uid_of
from testing.operator_history import NAMESPACE, SETTINGS, manifest
from testing.servers.etcds import OwnEtcd, ThreeEtcds, own_etcd, three_etcds
from testing.servers.secured_etcd import program
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

QUOTA = 8 << 20


class Site:
    """A job of two pods with a real etcd; `cluster` replaces the API server."""

    def __init__(self, etcd: EtcdClient) -> None:
        self.cluster = InMemoryCluster()
        endpoint = etcd.endpoint
        self.space = EtcdSpaceKeeper(lambda: EtcdMaintenance.connect(endpoint), quota=QUOTA, check_when_full_s=0.2)
        tasks = EtcdTasks(space=self.space)
        self.operator = Controller(self.cluster, etcd, SETTINGS, watch=self.cluster.watch, etcd_tasks=tasks)

    @property
    def pods(self) -> set[str]:
        return {name_of(pod) for pod in self.cluster.objects(Resource.POD) if not is_terminating(pod)}

    @property
    def unavailable(self) -> dict[str, Any]:
        (job,) = self.cluster.objects(Resource.JOB)
        conditions = job.get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "RendezvousUnavailable"), {})

    async def lose_a_pod(self) -> None:
        pod = self.cluster.objects(Resource.POD)[0]
        await self.cluster.remove_pod(NAMESPACE, name_of(pod), uid_of(pod))


@contextlib.asynccontextmanager
async def operated(*targets: str) -> AsyncIterator[Site]:
    etcd = EtcdClient(Endpoint(targets))
    site = Site(etcd)
    running = asyncio.create_task(site.operator.run())
    try:
        await site.cluster.create(Resource.JOB, manifest(replicas=2, minReplicas=1))
        await aeventually(lambda: len(site.pods) == 2, what="both pods")
        yield site
    finally:
        running.cancel()
        await asyncio.wait({running})
        await etcd.close()


@pytest.fixture(params=["3.5", "3.6"])
def small_etcd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnEtcd]:
    binary = program() if request.param == "3.6" else None
    with own_etcd(tmp_path, f"--quota-backend-bytes={QUOTA}", binary=binary) as etcd:
        yield etcd


@pytest.fixture
def three_small(tmp_path: Path) -> Iterator[ThreeEtcds]:
    with three_etcds(tmp_path, f"--quota-backend-bytes={QUOTA}", binary=program()) as etcds:
        yield etcds


async def test_a_full_etcd_is_named_in_the_status_and_jobs_continue_with_space(small_etcd: OwnEtcd) -> None:
    async with operated(small_etcd.endpoint) as site:
        await asyncio.to_thread(small_etcd.fill)
        await aeventually(lambda: site.unavailable.get("status") == "True", what="RendezvousUnavailable")
        assert site.unavailable["reason"] == "NoSpace"
        assert "NOSPACE" in site.unavailable["message"]
        await site.lose_a_pod()
        small_etcd.free_space()
        await aeventually(lambda: site.unavailable["status"] == "False", what="the end of it")
        await aeventually(lambda: len(site.pods) == 2, what="a pod in the place of the lost one")


async def test_three_full_members_are_defragmented_and_jobs_continue(three_small: ThreeEtcds) -> None:
    async with operated(*three_small.endpoints) as site:
        await asyncio.to_thread(three_small.fill)
        await aeventually(lambda: site.unavailable.get("reason") == "NoSpace", what="RendezvousUnavailable")
        three_small.free_space()
        await aeventually(lambda: site.unavailable["status"] == "False", what="the end of it")
        await aeventually(lambda: all_are_small(site, three_small), what="the last member defragmented")


def all_are_small(site: Site, etcds: ThreeEtcds) -> bool:
    """Whether each member is far from its quota; requests another check, because compactions end at any time."""
    site.space.check_now()
    return max(sizes(etcds)) < QUOTA / 2


def sizes(etcds: ThreeEtcds) -> list[int]:
    return [int(etcds.status(number)["dbSize"]) for number in range(3)]
