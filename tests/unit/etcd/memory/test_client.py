"""The in-memory etcd beyond the contract: it can be wiped, cut off, driven by hand."""

import asyncio

import pytest

from elasticjob_etcd.errors import Compacted, RequestRejected, StoreReset, Unavailable
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore


def put(key: str, lease: int = 0) -> Txn:
    return Txn((), (Put(key, b"", lease),))


async def test_a_wipe_is_reported_once_to_each_client() -> None:
    store = InMemoryStore()
    clients = InMemoryEtcd(store), InMemoryEtcd(store)
    for client in clients:
        await client.txn(put("a"))
    store.wipe()
    for client in clients:
        with pytest.raises(StoreReset):
            await client.get("a")
        assert await client.get("a") is None


async def test_a_write_over_a_wipe_takes_place_in_the_new_store() -> None:
    store = InMemoryStore()
    etcd = InMemoryEtcd(store)
    await etcd.txn(put("a"))
    store.wipe()
    with pytest.raises(StoreReset):
        await etcd.txn(put("b"))
    assert [kv.key for kv in store.range("").kvs] == ["b"]


async def test_a_wipe_ends_every_watch() -> None:
    store = InMemoryStore()
    etcd = InMemoryEtcd(store)
    await etcd.txn(put("a"))
    waiting = asyncio.create_task(anext(etcd.watch("", start_revision=3)))
    await asyncio.sleep(0)
    store.wipe()
    with pytest.raises(StoreReset):
        await waiting


async def test_a_disconnected_client_gets_nothing_and_catches_up_later() -> None:
    store = InMemoryStore()
    etcd, other = InMemoryEtcd(store), InMemoryEtcd(store)
    watch = etcd.watch("", start_revision=2)
    waiting = asyncio.create_task(anext(watch))
    etcd.disconnect()
    await other.txn(put("a"))
    with pytest.raises(Unavailable):
        await etcd.get("a")
    assert not waiting.done()
    etcd.reconnect()
    assert [event.kv.key for event in (await waiting).events] == ["a"]


def test_an_expired_lease_takes_its_keys_in_one_revision() -> None:
    store = InMemoryStore()
    lease = store.grant(5)
    for key in ("b", "a"):
        store.txn(put(key, lease.id))
    before = store.revision
    assert store.expire(lease.id)
    assert not store.expire(lease.id)
    events = store.events_since(before + 1, "")
    assert [(event.kv.key, event.deleted, event.kv.mod_revision) for event in events] == [
        ("a", True, before + 1),
        ("b", True, before + 1),
    ]


def test_listeners_hear_of_every_change_and_of_nothing_else() -> None:
    store = InMemoryStore()
    heard: list[int] = []
    store.listeners.add(lambda: heard.append(store.revision))
    store.txn(put("a"))
    store.txn(Txn((), ()))
    store.revoke(store.grant(5).id)
    store.compact(2)
    store.wipe()
    assert heard == [2, 2, 1]


def test_a_compaction_is_refused_as_etcd_refuses_it() -> None:
    store = InMemoryStore()
    for _ in range(3):
        store.txn(put("a"))
    store.compact(3)
    with pytest.raises(Compacted):
        store.compact(3)
    with pytest.raises(RequestRejected, match="future"):
        store.compact(5)
    with pytest.raises(Compacted) as raised:
        store.events_since(2, "")
    assert raised.value.compact_revision == 3
    assert [event.kv.mod_revision for event in store.events_since(3, "")] == [3, 4]
