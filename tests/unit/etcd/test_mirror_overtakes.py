"""A list made after a watch has begun may be ahead of it: what the watch then brings of the past changes nothing."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from elasticjob_etcd import mirror as mirror_module
from elasticjob_etcd.interface import Delete, Put, Range, Txn, WatchBatch
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_etcd.mirror import Mirror
from testing.waiting import aeventually


class LateWatch(InMemoryEtcd):
    """Its watches begin, and deliver nothing before `go` is set; it counts the lists."""

    def __init__(self, store: InMemoryStore) -> None:
        super().__init__(store)
        self.go = asyncio.Event()
        self.stands = asyncio.Event()
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.began = asyncio.Event()
        """Its beginning has been taken in."""
        self.lists = 0

    async def range(self, prefix: str) -> Range:
        self.lists += 1
        return await super().range(prefix)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        await self.may_begin.wait()
        async for batch in super().watch(prefix, start_revision=start_revision):
            if batch.events:
                await self.go.wait()
            self.stands.set()
            yield batch
            self.began.set()


async def test_a_change_between_the_given_list_and_the_watch_is_seen_at_once() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)
    initial = await other.range("/p/")
    await other.txn(Txn((), (Put("/p/a", b"1"),)))
    async with Mirror(etcd, "/p/", initial) as mirror:
        await aeventually(lambda: "/p/a" in mirror.items, what="the change")


async def test_what_was_given_is_not_listed_again_if_nothing_has_happened_since() -> None:
    store = InMemoryStore()
    etcd = LateWatch(store)
    async with Mirror(etcd, "/p/", store.range("/p/")):
        await aeventually(etcd.began.is_set, what="the watch's beginning")
    assert etcd.lists == 0


async def test_what_the_watch_brings_of_the_past_never_undoes_the_list() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)

    async def meanwhile(prefix: str) -> Range:
        """Between the watch's beginning and the list."""
        await other.txn(Txn((), (Put("/p/a", b"1"),)))
        await other.txn(Txn((), (Delete("/p/a"), Put("/p/b", b"2"))))
        return await other.range(prefix)

    etcd.range = meanwhile  # type: ignore[method-assign]
    async with Mirror(etcd, "/p/") as mirror:
        assert "/p/b" in mirror.items
        seen: list[set[str]] = []
        mirror.on_change = lambda: seen.append(set(mirror.items))
        etcd.go.set()
        await other.txn(Txn((), (Put("/p/end", b""),)))
        await aeventually(lambda: "/p/end" in mirror.items, what="the newest change")
        assert all("/p/a" not in items for items in seen)


async def test_what_is_read_after_the_watch_began_spares_a_list_and_nothing_is_missed_in_between() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)
    async with Mirror(etcd, "/p/", seed_later=True) as mirror:
        await aeventually(etcd.stands.is_set, what="the watch's beginning")
        await other.txn(Txn((), (Put("/p/a", b"1"),)))
        first = await other.range("/p/")
        await other.txn(Txn((), (Put("/p/b", b"2"),)))
        mirror.seed(first)
        assert sorted(mirror.items) == ["/p/a"]
        etcd.go.set()
        await aeventually(lambda: "/p/b" in mirror.items, what="what happened after the reading")
    assert etcd.lists == 0


async def test_a_read_after_the_watch_was_established_saves_a_list_however_late_it_is() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)
    etcd.may_begin.clear()
    async with Mirror(etcd, "/p/", seed_later=True) as mirror:
        waiting = asyncio.create_task(mirror.wait_watching())
        await asyncio.sleep(0)  # it has begun to wait
        await other.txn(Txn((), (Put("/p/a", b"1"),)))
        assert not waiting.done()
        etcd.may_begin.set()
        await waiting
        mirror.seed(await other.range("/p/"))
        await aeventually(etcd.began.is_set, what="the watch's beginning")
    assert (etcd.lists, sorted(mirror.items)) == (0, ["/p/a"])


async def test_a_watch_that_does_not_come_to_stand_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "_WATCH_TIMEOUT_S", 0.01)
    etcd = LateWatch(InMemoryStore())
    etcd.may_begin.clear()
    async with Mirror(etcd, "/p/", seed_later=True) as mirror:
        await mirror.wait_watching()


async def test_what_was_read_before_the_watch_began_is_listed_again() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)
    first = await other.range("/p/")
    await other.txn(Txn((), (Put("/p/a", b"1"),)))
    async with Mirror(etcd, "/p/", seed_later=True) as mirror:
        mirror.seed(first)
        await aeventually(lambda: "/p/a" in mirror.items, what="the change in between")
    assert etcd.lists == 1


async def test_a_wipe_before_the_first_list_is_given_does_not_leave_the_old_one_in_place() -> None:
    store = InMemoryStore()
    etcd, other = LateWatch(store), InMemoryEtcd(store)
    await other.txn(Txn((), (Put("/p/old", b"1"),)))
    async with Mirror(etcd, "/p/", seed_later=True) as mirror:
        await aeventually(etcd.stands.is_set, what="the watch's beginning")
        first = await other.range("/p/")
        store.wipe()
        mirror.seed(first)
        etcd.go.set()
        await aeventually(lambda: not mirror.items, what="the list of the new store")
