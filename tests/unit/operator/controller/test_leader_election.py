"""The elector with a cluster in memory: the leader, the end of leadership, and the content of the Lease."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from elasticjob_operator import main
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.cluster.lease_lock import LeaseLock
from elasticjob_operator.controller.leader_election import LeaderElector, elector_from
from elasticjob_operator.errors import ClusterUnavailable, OperatorError
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.policy.leader_election import ElectionTiming
from testing.waiting import aeventually

TERMS = ElectionTiming(lease_duration_s=1.0, renew_deadline_s=0.6, retry_period_s=0.05)


class Connection:
    """A connection to the API server that a test cuts."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self.cluster = cluster
        self.is_cut = False
        self.failures = 0

    async def create(self, resource: Resource, body: Object) -> Object:
        self._check()
        return await self.cluster.create(resource, body)

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        self._check()
        return await self.cluster.replace(resource, body)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        self._check()
        return await self.cluster.get(resource, namespace, name)

    def _check(self) -> None:
        if self.is_cut:
            self.failures += 1
            raise ClusterUnavailable("connection reset" if self.failures % 2 else "connection refused")


class Replica:
    """One candidate, with a count of its leaderships."""

    def __init__(self, cluster: InMemoryCluster, identity: str) -> None:
        self.line = Connection(cluster)
        lock = LeaseLock(self.line, namespace="system", name="operator", identity=identity, clock=time.time)
        self.elector = LeaderElector(lock, timing=TERMS)
        self.leads = False
        self.times = 0
        self.fault: Exception | None = None
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self) -> None:
        self.leads, self.times = True, self.times + 1
        try:
            if self.fault is not None:
                raise self.fault
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.task


@pytest.fixture
def cluster() -> InMemoryCluster:
    return InMemoryCluster()


@pytest.fixture
async def two(cluster: InMemoryCluster) -> AsyncIterator[tuple[Replica, Replica]]:
    """Return two candidates, of which the first leads."""
    first = Replica(cluster, "first")
    await aeventually(lambda: first.leads, what="a leader")
    second = Replica(cluster, "second")
    await aeventually(lambda: second.elector.holder == "first", what="the second to know the first")
    yield first, second
    await first.stop()
    await second.stop()


def lease(cluster: InMemoryCluster) -> dict[str, Any]:
    (found,) = cluster.objects(Resource.LEASE)
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_the_lease_names_the_leader_in_kubernetes_fields(
    cluster: InMemoryCluster, two: tuple[Replica, Replica]
) -> None:
    spec = lease(cluster)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 1, 0)
    assert spec["acquireTime"] <= spec["renewTime"]
    assert not two[1].elector.is_leader


async def test_the_end_of_the_leader_releases_the_lease_and_the_other_leads(
    cluster: InMemoryCluster, two: tuple[Replica, Replica]
) -> None:
    first, second = two
    await first.stop()
    await aeventually(lambda: second.leads, what="the second to lead")
    spec = lease(cluster)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_the_last_candidate_releases_the_lease(cluster: InMemoryCluster) -> None:
    only = Replica(cluster, "only")
    await aeventually(lambda: only.leads, what="a leader")
    await only.stop()
    assert lease(cluster)["holderIdentity"] == ""


async def test_a_leader_without_a_connection_stops_before_the_other_begins_and_becomes_a_standby(
    two: tuple[Replica, Replica],
) -> None:
    first, second = two
    first.line.is_cut = True

    def second_leads() -> bool:
        assert not (first.elector.is_leader and second.elector.is_leader)
        return second.leads

    await aeventually(second_leads, what="the second to lead")
    assert not first.leads
    first.line.is_cut = False
    await aeventually(lambda: first.elector.holder == "second", what="the first to know the second")
    await second.stop()
    await aeventually(lambda: first.leads, what="the first to lead again")
    assert first.times == 2


async def test_after_an_outage_for_both_one_of_them_leads_again(two: tuple[Replica, Replica]) -> None:
    first, second = two
    first.line.is_cut = second.line.is_cut = True
    await aeventually(lambda: not first.leads, what="the first to lead no more")
    first.line.is_cut = second.line.is_cut = False
    await aeventually(lambda: first.leads != second.leads, what="one leader")
    assert first.times + second.times == 2


async def test_an_outage_is_logged_once_for_each_kind_of_error(
    two: tuple[Replica, Replica], caplog: pytest.LogCaptureFixture
) -> None:
    _, standby = two
    standby.line.is_cut = True
    before = standby.line.failures
    await aeventually(lambda: standby.line.failures >= before + 10, what="attempts that fail")
    lines = [line.getMessage() for line in caplog.records if line.getMessage().startswith("cannot read or renew")]
    assert [line.rpartition(": ")[2] for line in lines] == ["connection reset", "connection refused"]


async def test_a_leader_whose_lease_another_holds_stops_at_once(
    cluster: InMemoryCluster, two: tuple[Replica, Replica]
) -> None:
    first, _ = two
    await cluster.patch_spec(Resource.LEASE, "system", "operator", {"holderIdentity": "by hand"})
    await aeventually(lambda: not first.leads, what="the first to lead no more")


async def test_an_error_of_the_leaders_work_ends_its_run_and_releases_the_lease(cluster: InMemoryCluster) -> None:
    broken = Replica(cluster, "broken")
    broken.fault = OperatorError("etcd refuses us")
    with pytest.raises(OperatorError, match="etcd refuses us"):
        await broken.task
    assert lease(cluster)["holderIdentity"] == ""


def test_outside_a_pod_the_namespace_of_the_lease_must_be_given(cluster: InMemoryCluster) -> None:
    parse = main._parser().parse_args
    assert elector_from(parse(["--etcd-endpoints=h:1"]), cluster) is None
    with pytest.raises(OperatorError, match="set --lease-namespace"):
        elector_from(parse(["--etcd-endpoints=h:1", "--leader-elect"]), cluster)
    assert elector_from(parse(["--etcd-endpoints=h:1", "--leader-elect", "--lease-namespace=n"]), cluster)
