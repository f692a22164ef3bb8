"""Leases: what every `Etcd` promises, held against each store."""

import asyncio

import pytest

from elasticjob_etcd.interface import Etcd, Lease, Put, Txn
from elasticjob_etcd.leases import LeaseKeeper
from tests.integration.etcd.conftest import Backend

UNKNOWN_LEASE = 0x7777


async def put(store: Etcd, key: str, lease: Lease | None = None) -> int:
    return (await store.txn(Txn((), (Put(key, b"", lease.id if lease else 0),)))).revision


@pytest.mark.parametrize("ttl_s", [0.1, 2.0, 7.5, 3600.0])
async def test_a_lease_lives_at_least_as_long_as_asked(store: Etcd, ttl_s: float) -> None:
    lease = await store.lease_grant(ttl_s)
    assert lease.ttl_s >= ttl_s
    assert await store.lease_keep_alive(lease.id) == lease.ttl_s


async def test_leases_have_ids_of_their_own(store: Etcd) -> None:
    leases = [await store.lease_grant(60) for _ in range(10)]
    assert len({lease.id for lease in leases} - {0}) == 10


async def test_refreshing_an_unknown_lease_grants_nothing(store: Etcd) -> None:
    assert await store.lease_keep_alive(UNKNOWN_LEASE) == 0.0


async def test_revoking_deletes_all_keys_of_the_lease_in_one_revision(store: Etcd, prefix: str) -> None:
    lease = await store.lease_grant(60)
    await put(store, prefix + "kept")
    for key in "cab":
        revision = await put(store, prefix + key, lease)
    assert await store.lease_revoke(lease.id)
    async for batch in store.watch(prefix, start_revision=revision + 1):
        assert [event.kv.key.removeprefix(prefix) for event in batch.events] == ["a", "b", "c"]
        assert {(event.deleted, event.kv.mod_revision) for event in batch.events} == {(True, batch.revision)}
        break
    assert [kv.key for kv in (await store.range(prefix)).kvs] == [prefix + "kept"]


async def test_a_revoked_lease_has_ended(store: Etcd) -> None:
    lease = await store.lease_grant(60)
    assert await store.lease_revoke(lease.id)
    assert not await store.lease_revoke(lease.id)
    assert await store.lease_keep_alive(lease.id) == 0.0


@pytest.mark.parametrize("other", [True, False], ids=["another lease", "no lease"])
async def test_a_key_put_again_leaves_its_former_lease(store: Etcd, prefix: str, *, other: bool) -> None:
    former = await store.lease_grant(60)
    await put(store, prefix, former)
    await put(store, prefix, await store.lease_grant(60) if other else None)
    await store.lease_revoke(former.id)
    assert await store.get(prefix) is not None


async def test_a_key_read_back_names_its_lease(store: Etcd, prefix: str) -> None:
    lease = await store.lease_grant(60)
    await put(store, prefix, lease)
    kv = await store.get(prefix)
    assert kv is not None
    assert kv.lease == lease.id


async def test_a_lease_runs_out_unless_it_is_refreshed(store: Etcd, prefix: str) -> None:
    kept, left = await store.lease_grant(1), await store.lease_grant(1)
    await put(store, prefix + "kept", kept)
    revision = await put(store, prefix + "left", left)
    keeper = LeaseKeeper(store, kept)
    async with asyncio.timeout(15):
        async for batch in store.watch(prefix, start_revision=revision + 1):
            assert [(event.kv.key, event.deleted) for event in batch.events] == [(prefix + "left", True)]
            break
    await keeper.close()
    assert not keeper.lost.is_set()
    assert await store.lease_keep_alive(kept.id) == kept.ttl_s
    assert await store.lease_revoke(kept.id)


async def test_a_lease_outlives_the_client_that_made_it(backend: Backend, prefix: str) -> None:
    first, second = backend.connect(), backend.connect()
    revision = await put(first, prefix, await first.lease_grant(1))
    await first.close()
    async with asyncio.timeout(15):
        async for batch in second.watch(prefix, start_revision=revision + 1):
            assert [event.deleted for event in batch.events] == [True]
            break


async def test_many_leases_are_refreshed_at_once(store: Etcd) -> None:
    leases = [await store.lease_grant(60 + i) for i in range(50)]
    granted = await asyncio.gather(*(store.lease_keep_alive(lease.id) for lease in leases))
    assert granted == [lease.ttl_s for lease in leases]
