"""Requests for which etcd has no permissions, or had none in older versions: compactions, leases, and many writes.

Compactions are sent as an administrator, since etcd refuses A's by now: harmless they must be all the same.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest

from elasticjob_api.records import SpecRecord
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint, Lease, Put, Txn
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.mirror import Mirror
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.model.job_key import JobKey
from testing.servers.secured_etcd import SecuredEtcd, bare_channel
from testing.waiting import aeventually
from tests.integration.rendezvous.member_group import MemberGroup
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

Act = Callable[[], Awaitable[object]]


@contextlib.asynccontextmanager
async def again_and_again(act: Act) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Repeat `act` as fast as etcd responds; yield a function that waits for some more repetitions."""
    done = 0

    async def work() -> None:
        nonlocal done
        while True:
            await act()
            done += 1

    async def more() -> None:
        wanted = done + 10
        await aeventually(lambda: task.done() or done >= wanted, within_s=30, what="ten more")
        assert not task.done(), task.exception()

    task = asyncio.create_task(work(), name="storm")
    try:
        await more()
        yield more
        await more()
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def compact(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Act]:
    """Compact everything but the newest revision."""
    async with bare_channel(root.endpoint) as channel:
        stub = rpc.KVStub(channel)

        async def act() -> None:
            revision = (await stub.Range(rpc.RangeRequest(key=b"-"))).header.revision
            with contextlib.suppress(grpc.RpcError):  # another compaction came first
                await stub.Compact(rpc.CompactionRequest(revision=revision))

        assert secured.port
        yield act


@pytest.fixture
async def crew(victim: Job) -> AsyncIterator[MemberGroup]:
    """Run three members of B in round 1."""
    spec = SpecRecord(min=2, max=3, desired=3, max_restarts=3, scale_up_delay_s=1.0)
    made = MemberGroup(lambda: EtcdClient(victim.endpoint), victim.keys.everything, spec)
    made.join(3)
    await made.running(1)
    yield made
    await made.close()


async def require_undisturbed(crew: MemberGroup, storm: Act) -> None:
    """Check that B has no other rounds than by its own failures, under the same leases."""
    leases = [mate.lease for mate in crew.group_members]
    async with again_and_again(storm) as more:
        for round_ in (2, 3):
            crew.group_members[1].workers.fail()
            await crew.running(round_)
            await more()
    state = await crew.running(3)
    assert (state.restarts, state.node_losses) == (2, 0)
    assert [mate.lease for mate in crew.group_members] == leases


async def test_agents_survive_a_flood_of_compactions(crew: MemberGroup, compact: Act) -> None:
    await require_undisturbed(crew, compact)


async def test_agents_survive_a_flood_of_all_requests_that_a_job_may_send(crew: MemberGroup, attacker: Job) -> None:
    """A compacts, lists and revokes in vain, and writes as much as it can below its own prefix."""
    leases = [mate.lease for mate in crew.group_members]
    noise = Put(attacker.keys.report(1, "0" * 8), b"x" * 10_000)
    async with bare_channel(attacker.endpoint) as channel:
        kv, lease = rpc.KVStub(channel), rpc.LeaseStub(channel)

        async def act() -> None:
            calls = [
                kv.Compact(rpc.CompactionRequest(revision=1)),
                lease.LeaseLeases(rpc.LeaseLeasesRequest()),
                *(lease.LeaseRevoke(rpc.LeaseRevokeRequest(ID=number)) for number in leases),
            ]
            for call in calls:
                with contextlib.suppress(grpc.RpcError):
                    await call
            with contextlib.suppress(EtcdError):
                await attacker.etcd.lease_keep_alive(leases[0])
            await attacker.etcd.txn(Txn((), (noise,)))

        await require_undisturbed(crew, act)


@pytest.mark.parametrize("how", ["ended", "tied to a key of A"])
async def test_a_lease_taken_before_it_has_a_key_costs_a_join_another_attempt(
    how: str, attacker: Job, victim: Job
) -> None:
    """Etcd lets any client use a lease without keys, whose id the client would have to guess."""

    async def rob(lease: Lease) -> None:
        if how == "ended":
            await attacker.etcd.lease_revoke(lease.id)
        else:
            await attacker.etcd.txn(Txn((), (Put(attacker.keys.leader, b"", lease=lease.id),)))

    spec = SpecRecord(min=1, max=1, desired=1, max_restarts=3, scale_up_delay_s=1.0)
    clients: list[_Robbed] = []

    def connect() -> EtcdClient:
        clients.append(_Robbed(victim.endpoint, rob))
        return clients[-1]

    crew = MemberGroup(connect, victim.keys.everything, spec)
    crew.join()
    try:
        await crew.running(1)
        assert max(client.robbed for client in clients) == 2
    finally:
        await crew.close()


class _Robbed(EtcdClient):
    """A client whose first two leases are attached by another client before they are used."""

    def __init__(self, endpoint: Endpoint, rob: Callable[[Lease], Awaitable[None]]) -> None:
        super().__init__(endpoint)
        self._rob = rob
        self.robbed = 0

    async def lease_grant(self, ttl_s: float) -> Lease:
        lease = await super().lease_grant(ttl_s)
        if self.robbed < 2:
            self.robbed += 1
            await self._rob(lease)
        return lease


async def test_a_mirror_misses_no_write_in_a_flood_of_compactions(victim: Job, compact: Act) -> None:
    """A list replaces events that a compaction removed: the mirror has every key at its last value."""
    async with Mirror(victim.etcd, victim.keys.everything) as mirror:
        async with again_and_again(compact):
            for number in range(300):
                key = victim.keys.report(number % 30, "0" * 8)
                await victim.etcd.txn(Txn((), (Put(key, str(number).encode()),)))
        await aeventually(lambda: len(mirror.items) == 30, what="all keys in the mirror")
        newest = {kv.key: kv.value for kv in (await victim.etcd.range(victim.keys.everything)).kvs}
        await aeventually(lambda: {k: kv.value for k, kv in mirror.items.items()} == newest, what="the last values")
        assert mirror.store_resets == 0


async def test_the_operators_view_survives_a_flood_of_compactions(
    root: EtcdClient, victim: Job, crew: MemberGroup, compact: Act
) -> None:
    told: set[JobKey] = set()
    view = RendezvousInformer(root, "c", on_change=told.add, on_listed=lambda: None)
    task = asyncio.create_task(view.run())
    key = JobKey("n", "b", victim.uid)
    try:
        async with again_and_again(compact):
            crew.group_members[0].workers.fail()
            await crew.running(2)
        seen = await aeventually(
            lambda: (state := view.view(key).state) is not None and state.round == 2 and state, what="round 2"
        )
        assert seen
        assert view.store == 0, "no wipe was seen"
    finally:
        task.cancel()
        await asyncio.wait({task})
