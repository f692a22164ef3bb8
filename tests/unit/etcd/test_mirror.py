"""A mirror over everything that can happen to a store, in memory."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from elasticjob_etcd.errors import RelistRequired, RequestRejected, StoreReset
from elasticjob_etcd.interface import Delete, Put, Range, Txn, WatchBatch
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_etcd.mirror import Mirror


def put(store: InMemoryStore, *keys: str) -> int:
    return store.txn(Txn((), tuple(Put(key, b"") for key in keys))).revision


def delete(store: InMemoryStore, key: str) -> int:
    return store.txn(Txn((), (Delete(key),))).revision


async def reach(mirror: Mirror, revision: int) -> list[str]:
    """The keys once the mirror is at `revision`."""
    async with asyncio.timeout(5):
        assert await mirror.wait_change(revision - 1) == revision
    return sorted(mirror.items)


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore()


async def test_entering_lists_and_then_it_follows(store: InMemoryStore) -> None:
    put(store, "p/a", "q")
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        assert (sorted(mirror.items), mirror.revision) == (["p/a"], 2)
        assert await reach(mirror, put(store, "p/b", "p/c")) == ["p/a", "p/b", "p/c"]
        assert await reach(mirror, delete(store, "p/a")) == ["p/b", "p/c"]


async def test_a_list_that_is_given_is_not_asked_for(store: InMemoryStore) -> None:
    put(store, "p/a")
    given = store.range("p/")
    put(store, "p/b")
    etcd = InMemoryEtcd(store)
    etcd.disconnect()
    async with Mirror(etcd, "p/", given) as mirror:
        assert sorted(mirror.items) == ["p/a"]
        etcd.reconnect()
        assert await reach(mirror, 3) == ["p/a", "p/b"]


async def test_a_change_elsewhere_wakes_no_waiter(store: InMemoryStore) -> None:
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        waiting = asyncio.create_task(mirror.wait_change(mirror.revision))
        put(store, "q/a")
        revision = put(store, "p/a")
        assert await waiting == revision


async def test_changes_before_anybody_waits_are_not_missed(store: InMemoryStore) -> None:
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        seen = mirror.revision
        put(store, "p/a")
        last = put(store, "p/b")
        await reach(mirror, last)
        assert await mirror.wait_change(seen) == last


async def test_the_hook_is_called_after_each_change(store: InMemoryStore) -> None:
    seen: list[list[str]] = []
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        mirror.on_change = lambda: seen.append(sorted(mirror.items))
        await reach(mirror, put(store, "p/a"))
        await reach(mirror, delete(store, "p/a"))
    assert seen == [["p/a"], []]


async def test_after_a_compaction_deletions_are_seen_as_missing_keys(store: InMemoryStore) -> None:
    put(store, "p/a", "p/b")
    etcd = InMemoryEtcd(store)
    async with Mirror(etcd, "p/") as mirror:
        etcd.disconnect()
        delete(store, "p/a")
        put(store, "p/c")
        store.compact(put(store, "q"))
        etcd.reconnect()
        assert await reach(mirror, 5) == ["p/b", "p/c"]
        assert mirror.store_resets == 0
        assert await reach(mirror, put(store, "p/d")) == ["p/b", "p/c", "p/d"]


async def test_a_wipe_is_reported_once_when_the_new_store_is_listed(store: InMemoryStore) -> None:
    put(store, "p/a")
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        seen = mirror.revision
        store.wipe()
        put(store, "p/new")
        with pytest.raises(StoreReset, match="p/ was listed again at revision 2"):
            await mirror.wait_change(seen)
        assert (sorted(mirror.items), mirror.store_resets) == (["p/new"], 1)
        assert await reach(mirror, put(store, "p/later")) == ["p/later", "p/new"]


async def test_nothing_that_is_left_after_a_compaction_is_a_deletion(store: InMemoryStore) -> None:
    put(store, "p/a")
    etcd = InMemoryEtcd(store)
    async with Mirror(etcd, "p/") as mirror:
        etcd.disconnect()
        delete(store, "p/a")
        store.compact(put(store, "q"))
        etcd.reconnect()
        assert await reach(mirror, 4) == []
        assert mirror.store_resets == 0


async def test_where_it_is_asked_for_nothing_that_is_left_after_a_compaction_is_taken_for_a_wipe(
    store: InMemoryStore,
) -> None:
    put(store, "p/a")
    etcd = InMemoryEtcd(store)
    async with Mirror(etcd, "p/", empty_is_reset=True) as mirror:
        etcd.disconnect()
        delete(store, "p/a")
        store.compact(put(store, "q"))
        etcd.reconnect()
        with pytest.raises(StoreReset):
            await mirror.wait_change(mirror.revision)
        put(store, "p/a")
        delete(store, "p/a")
        assert await reach(mirror, 6) == []
        assert mirror.store_resets == 1, "a deletion that was watched is one"


class Incomplete(InMemoryEtcd):
    """An etcd whose first watch lacks something; before that is listed, all is deleted."""

    def __init__(self, store: InMemoryStore) -> None:
        super().__init__(store)
        self.all_of = store
        self.lacks = True

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        async for batch in super().watch(prefix, start_revision=start_revision):
            yield batch
            if self.lacks and batch.events:
                self.lacks = False
                delete(self.all_of, "p/a")
                raise RelistRequired


async def test_nothing_that_is_left_after_a_list_for_another_reason_is_a_deletion(store: InMemoryStore) -> None:
    async with Mirror(Incomplete(store), "p/", empty_is_reset=True) as mirror:
        put(store, "p/a")
        assert await reach(mirror, 3) == []
        assert mirror.store_resets == 0


async def test_entering_waits_for_etcd_however_long_it_takes(store: InMemoryStore) -> None:
    etcd = InMemoryEtcd(store)
    etcd.disconnect()
    mirror = Mirror(etcd, "p/", rng=lambda: 0.0)
    entering = asyncio.create_task(mirror.__aenter__())
    put(store, "p/a")
    await asyncio.sleep(0)
    etcd.reconnect()
    await entering
    assert sorted(mirror.items) == ["p/a"]
    await mirror.close()


class Forbidden(InMemoryEtcd):
    """An etcd that rejects every read."""

    async def range(self, prefix: str) -> Range:
        raise RequestRejected(f"list of {prefix}: permission denied")


async def test_what_cannot_heal_reaches_the_owner(store: InMemoryStore) -> None:
    with pytest.raises(RequestRejected, match="permission denied"):
        async with Mirror(Forbidden(store), "p/"):
            pass
    put(store, "p/a")
    async with Mirror(Forbidden(store), "p/", store.range("p/")) as mirror:
        store.wipe()  # makes it list
        for _ in range(2):
            with pytest.raises(RequestRejected):
                await mirror.wait_change(mirror.revision)
    assert isinstance(mirror.failure, RequestRejected)


async def test_a_cancelled_waiter_leaves_the_mirror_alone(store: InMemoryStore) -> None:
    async with Mirror(InMemoryEtcd(store), "p/") as mirror:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(mirror.wait_change(mirror.revision), 0.01)
        assert await reach(mirror, put(store, "p/a")) == ["p/a"]
