"""Two operators, one job: the standby writes nothing, takes over after the leader, and becomes a standby again."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_etcd.interface import Range, Txn, TxnResult
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.cluster.lease_lock import LeaseLock
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.controller.leader_election import LeaderElector
from elasticjob_operator.errors import ClusterUnavailable
from elasticjob_operator.model.cluster_interface import Object, ObjectEvent, Resource
from elasticjob_operator.model.objects import name_of
from elasticjob_operator.policy.leader_election import ElectionTiming
from testing.operator_history import NAMESPACE, SETTINGS, OperatorHistory, manifest
from testing.waiting import aeventually

TERMS = ElectionTiming(lease_duration_s=1.0, renew_deadline_s=0.6, retry_period_s=0.05)


class Wire:
    """One operator's connection to the cluster; records its writes."""

    def __init__(self, cluster: InMemoryCluster, written: list[str]) -> None:
        self._cluster = cluster
        self._written = written
        self.cannot_renew = False
        self.lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        self.lists += 1
        return self._cluster.watch(resource)

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        if self.cannot_renew:
            raise ClusterUnavailable("the API server did not answer")
        return await self._cluster.replace(resource, body)

    async def create(self, resource: Resource, body: Object) -> Object:
        if resource is not Resource.LEASE:
            self._written.append(f"create {resource.value}")
        return await self._cluster.create(resource, body)

    async def apply(self, resource: Resource, body: Object) -> Object:
        self._written.append(f"apply {resource.value}")
        return await self._cluster.apply(resource, body)

    async def patch_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any], **only: Any
    ) -> None:
        self._written.append("status")
        await self._cluster.patch_status(resource, namespace, name, status, **only)

    async def delete(self, resource: Resource, namespace: str, name: str, **options: Any) -> None:
        self._written.append(f"delete {resource.value}")
        await self._cluster.delete(resource, namespace, name, **options)


class Etcd(InMemoryEtcd):
    """One operator's connection to etcd; records its writes."""

    written: list[str]
    lists = 0

    async def range(self, prefix: str) -> Range:
        self.lists += 1
        return await super().range(prefix)

    async def txn(self, txn: Txn) -> TxnResult:
        result = await super().txn(txn)
        self.written += ["txn"] if result.succeeded and txn.success else []
        return result


class Replica:
    """One operator, with a Lease or without an election."""

    def __init__(self, stage: OperatorHistory, identity: str, *, elects: bool = True) -> None:
        self.written: list[str] = []
        etcd = Etcd(stage.etcd.store)
        etcd.written = self.written
        self.etcd = etcd
        self.wire = Wire(stage.cluster, self.written)
        lock = LeaseLock(self.wire, namespace="system", name="op", identity=identity, clock=time.time)
        self.elector = LeaderElector(lock, timing=TERMS) if elects else None
        self.operator = Controller(self.wire, etcd, SETTINGS, watch=self.wire.watch, elector=self.elector)
        self.task = asyncio.create_task(self.operator.run())

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.etcd.close()


@pytest.fixture
async def stage() -> AsyncIterator[OperatorHistory]:
    made = OperatorHistory()
    yield made
    await made.etcd.close()


Start = Callable[..., Replica]


@pytest.fixture
async def start(stage: OperatorHistory) -> AsyncIterator[Start]:
    started: list[Replica] = []

    def begin(identity: str, *, elects: bool = True) -> Replica:
        started.append(Replica(stage, identity, elects=elects))
        return started[-1]

    yield begin
    for replica in started:
        await replica.stop()


async def test_a_standby_follows_everything_and_writes_nothing(stage: OperatorHistory, start: Start) -> None:
    leader = start("leader")
    await aeventually(lambda: leader.operator.is_leader, what="a leader")
    standby = start("standby")
    await aeventually(lambda: standby.operator.ready, what="a standby that is ready")
    await stage.apply(manifest(replicas=2))
    await run_to(stage, round_=1)
    await stage.fail_worker(0)
    await stage.close_round(Cause.WORKER_FAILED)
    await stage.until("a restart in the status", lambda: stage.status().get("restarts") == 1)
    assert standby.written == []
    assert not standby.operator.is_leader
    assert standby.operator.phases() == {}


async def test_the_standby_continues_the_leaders_work_and_charges_nothing(stage: OperatorHistory, start: Start) -> None:
    leader = start("leader")
    await stage.apply(manifest(replicas=2))
    await run_to(stage, round_=1)
    standby = start("standby")
    await aeventually(lambda: standby.operator.ready, what="a standby that is ready")
    before = stage.pod_names()
    await leader.stop()
    await aeventually(lambda: standby.operator.is_leader, what="another leader")
    await stage.scale(replicas=3)
    await stage.run_pods(3)
    assert before <= stage.pod_names()
    await stage.close_round(Cause.NODE_JOINED)
    await stage.until("round 2 in the status", lambda: stage.status().get("rendezvousRound") == 2)
    assert (stage.status()["restarts"], stage.status()["podReplacements"]) == (0, 0)


async def test_a_new_leadership_uses_no_state_of_an_earlier_one(stage: OperatorHistory, start: Start) -> None:
    first = start("first")
    await stage.apply(manifest(replicas=2))
    await run_to(stage, round_=1)
    second = start("second")
    await aeventually(lambda: second.operator.ready, what="a standby that is ready")
    first.wire.cannot_renew = True
    await aeventually(lambda: second.operator.is_leader, what="the second to lead")
    assert not first.operator.is_leader
    await lose(stage, 0)
    await stage.run_pods(2)
    await stage.close_round(Cause.NODE_LOST)
    await stage.until("the second round", lambda: stage.status().get("rendezvousRound") == 2)
    began = [each["startTime"] for each in stage.status()["rounds"]]
    first.wire.cannot_renew = False
    await second.stop()
    await aeventually(lambda: first.operator.is_leader, what="the first to lead again")
    first.written.clear()
    await lose(stage, 1)
    await stage.run_pods(2)
    await stage.until("two replacements", lambda: stage.status().get("podReplacements") == 2)
    assert first.written.count("create pods") == 1
    assert (first.wire.lists, first.etcd.lists) == (2, 1)  # jobs and pods; etcd
    assert [each["startTime"] for each in stage.status()["rounds"]] == began


async def lose(stage: OperatorHistory, slot: int) -> None:
    """Let the slot's pod fail, and wait for its replacement."""
    failed = stage.pod(slot)
    await stage.end_pod(failed, exit_code=1)
    await stage.leave(failed)
    await stage.until("the failed pod's end", lambda: name_of(failed) not in stage.pod_names())


@pytest.mark.parametrize("settled", [True, False], ids=["then one of them ends", "to the end"])
async def test_two_that_both_believe_they_lead_do_no_harm(
    stage: OperatorHistory, start: Start, *, settled: bool
) -> None:
    one, other = start("one", elects=False), start("other", elects=False)
    await aeventually(lambda: one.operator.is_leader and other.operator.is_leader, what="two leaders")
    await stage.apply(manifest(replicas=3, minReplicas=1, maxReplicas=4, backoffLimit=2))
    await run_to(stage, round_=1, count=3)
    await lose(stage, 1)
    await stage.run_pods(3)
    await stage.close_round(Cause.NODE_LOST)
    await stage.until("round 2", lambda: stage.status().get("rendezvousRound") == 2)
    await stage.until("one replacement", lambda: stage.status().get("podReplacements") == 1)
    await stage.scale(replicas=4)
    if settled:
        await other.stop()
    await stage.run_pods(4)
    await stage.close_round(Cause.NODE_JOINED)
    await stage.until("round 3", lambda: stage.status().get("rendezvousRound") == 3)
    spec = stage.spec()
    assert spec is not None
    assert {owner.pod for owner in spec.slots.values()} == stage.pod_names()
    await stage.finish(0, 1, 2, 3)
    await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
    await stage.until("the end", lambda: stage.status().get("phase") == "Succeeded")
    assert (stage.status()["restarts"], stage.status()["podReplacements"]) == (0, 1)


async def run_to(stage: OperatorHistory, *, round_: int, count: int = 2) -> None:
    await stage.run_pods(count)
    await stage.close_round()
    await stage.until("the round in the status", lambda: stage.status().get("rendezvousRound") == round_)
    assert stage.job["metadata"]["namespace"] == NAMESPACE
