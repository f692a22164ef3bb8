"""Leases of a job's certificate are revoked if they have no key; an agent's lease is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.connection import Connection
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.lease_admin import EtcdLeaseAdmin
from elasticjob_etcd.messages import rpc
from elasticjob_operator.maintenance.leases import EtcdLeaseSweeper
from testing.servers.secured_etcd import bare_channel
from testing.waiting import aeventually
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

MANY = 3_000
A_LIFE_S = 3_600


@pytest.fixture
async def swept(root: EtcdClient) -> AsyncIterator[list[int]]:
    """Return the numbers of revoked leases, one for each check."""

    def connect() -> AbstractAsyncContextManager[EtcdLeaseAdmin]:
        return EtcdLeaseAdmin.connect(root.endpoint)

    revoked: list[int] = []
    task = asyncio.create_task(EtcdLeaseSweeper(connect, revoked.append, check_s=0.5, check_in_flood_s=0.1).run())
    yield revoked
    task.cancel()
    await asyncio.wait({task})


async def grant(lease: rpc.LeaseStub, granted: set[int]) -> None:
    while len(granted) < MANY:
        granted.add((await lease.LeaseGrant(rpc.LeaseGrantRequest(TTL=A_LIFE_S), timeout=60)).ID)


async def flood(channel: grpc.aio.Channel) -> set[int]:
    """Return the ids of the flood's leases."""
    granted: set[int] = set()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(64):
            tasks.create_task(grant(rpc.LeaseStub(channel), granted))
    return granted


async def test_leases_without_a_key_are_revoked_and_an_agents_remains(
    attacker: Job, victim: Job, root: EtcdClient, swept: list[int]
) -> None:
    agents = await victim.etcd.lease_grant(600)
    await victim.etcd.txn(Txn((), (Put(f"{victim.keys.everything}x", b"", lease=agents.id),)))
    async with bare_channel(attacker.endpoint) as channel:
        granted = await flood(channel)
    async with EtcdLeaseAdmin.connect(root.endpoint) as admin:

        async def are_gone() -> bool:
            return not granted & await admin.leases()

        gone: bool = await aeventually(are_gone, within_s=120, what="the end of the flood's leases")
        assert gone
        # A revocation whose answer was lost is not counted.
        assert sum(swept) > MANY // 2
        assert agents.id in await admin.leases()
        assert agents.id in await admin.with_keys(frozenset({agents.id}))
    assert await victim.etcd.get(f"{victim.keys.everything}x")


async def test_the_check_for_keys_of_leases_reads_no_value(
    victim: Job, root: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of keys alone also loads their values into etcd's memory, for all that jobs may store."""
    ids = [(await victim.etcd.lease_grant(600)).id for _ in range(5)]
    tied, gone = ids[:3], ids[4]
    for number, lease_id in enumerate(tied):
        await victim.etcd.txn(Txn((), (Put(f"{victim.keys.everything}{number}", b"", lease=lease_id),)))
    monkeypatch.setattr("elasticjob_etcd.lease_admin._MAX_CONCURRENT", 2)
    sent: list[Any] = []
    call = Connection.call

    async def record(self: Connection, method: Any, request: Any, *, tried: str) -> Any:
        sent.append(request)
        return await call(self, method, request, tried=tried)

    monkeypatch.setattr(Connection, "call", record)
    async with EtcdLeaseAdmin.connect(root.endpoint) as admin:
        await admin.revoke(gone)
        assert await admin.with_keys(frozenset(ids)) == frozenset(tied)
        assert not [request for request in sent if isinstance(request, rpc.RangeRequest)]
        for lease_id in ids * 2:
            await admin.revoke(lease_id)
        assert not set(ids) & await admin.leases()
