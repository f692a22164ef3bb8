"""When a lease counts as lost, and when not."""

import asyncio
from dataclasses import replace

from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually


async def lost(keeper: LeaseKeeper) -> str:
    async with asyncio.timeout(5):
        await keeper.lost.wait()
    await keeper.close()
    return keeper.reason


async def test_a_kept_lease_is_refreshed_again_and_again() -> None:
    store = InMemoryStore(min_ttl_s=1.0)
    lease = store.grant(1)
    keeper = LeaseKeeper(InMemoryEtcd(store), lease)
    assert await aeventually(lambda: (store.refreshes(lease.id) or 0) >= 2)
    await keeper.close()
    assert not keeper.lost.is_set()


async def test_a_lease_that_etcd_does_not_know_is_lost() -> None:
    store = InMemoryStore()
    lease = replace(store.grant(1), ttl_s=0.03)
    keeper = LeaseKeeper(InMemoryEtcd(store), lease)
    store.revoke(lease.id)
    assert await lost(keeper) == f"lease {lease.id:x} is lost: etcd reports that it does not exist any more"


async def test_a_lease_not_refreshed_for_its_ttl_is_lost() -> None:
    etcd = InMemoryEtcd(InMemoryStore())
    etcd.disconnect()
    keeper = LeaseKeeper(etcd, replace(etcd.store.grant(1), ttl_s=0.2))
    assert "it was not refreshed for 0.2 s (the in-memory etcd is disconnected)" in await lost(keeper)


async def test_an_outage_shorter_than_the_ttl_loses_nothing() -> None:
    etcd = InMemoryEtcd(InMemoryStore())
    lease = etcd.store.grant(2)
    etcd.disconnect()
    keeper = LeaseKeeper(etcd, lease)
    assert await aeventually(lambda: keeper._backoff._failures)
    etcd.reconnect()
    assert await aeventually(lambda: etcd.store.refreshes(lease.id))
    await keeper.close()
    assert not keeper.lost.is_set()


async def test_a_process_that_stood_still_for_a_ttl_has_lost_its_lease() -> None:
    now = [0.0]
    etcd = InMemoryEtcd(InMemoryStore(min_ttl_s=1.0))
    lease = etcd.store.grant(1)
    keeper = LeaseKeeper(etcd, lease, lambda: now[0])
    now[0] = 1.0
    assert "it was not refreshed for 1 s" in await lost(keeper)
    assert etcd.store.refreshes(lease.id) == 0


async def test_closing_a_keeper_leaves_the_lease_to_itself() -> None:
    etcd = InMemoryEtcd(InMemoryStore())
    lease = etcd.store.grant(1)
    keeper = LeaseKeeper(etcd, lease)
    await keeper.close()
    await keeper.close()
    assert etcd.store.refreshes(lease.id) == 0
    assert not keeper.lost.is_set()


async def test_a_refresh_without_an_answer_for_a_quarter_of_the_ttl_is_a_stall_and_stays_known() -> None:
    now = [100.0]
    etcd = InMemoryEtcd(InMemoryStore(min_ttl_s=60.0))
    keeper = LeaseKeeper(etcd, replace(etcd.store.grant(60), ttl_s=0.3), lambda: now[0])
    etcd.disconnect()
    await aeventually(lambda: keeper._backoff._failures, what="a refresh without an answer")
    now[0] += 0.07
    assert keeper.stalled_at_s < 0.0
    now[0] += 0.01
    assert keeper.stalled_at_s == now[0]
    etcd.reconnect()
    await aeventually(lambda: etcd.store.refreshes(keeper.lease.id), what="an answer")
    answered_s, now[0] = now[0], now[0] + 0.05
    assert keeper.stalled_at_s == answered_s
    await keeper.close()
