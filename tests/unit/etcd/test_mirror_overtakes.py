"""A list beside a new watch may be ahead of it: what the watch then brings of the past changes nothing."""

import asyncio
from collections.abc import AsyncGenerator

from elasticjob_etcd.memory import MemoryEtcd, MemoryStore
from elasticjob_etcd.mirror import Mirror
from elasticjob_etcd.protocol import Delete, Put, Txn, WatchBatch
from tests.faults.waiting import aeventually


class LateWatch(MemoryEtcd):
    """Its watches deliver nothing before `go` is set, as those of an etcd that has yet to catch them up."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.go = asyncio.Event()

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        await self.go.wait()
        async for batch in super().watch(prefix, start_revision=start_revision):
            yield batch


async def test_a_change_between_list_and_watch_is_seen_before_the_watch_has_caught_up() -> None:
    store = MemoryStore()
    etcd, other = LateWatch(store), MemoryEtcd(store)
    initial = await etcd.range("/p/")
    await other.txn(Txn((), (Put("/p/a", b"1"),)))
    async with Mirror(etcd, "/p/", initial) as mirror:
        await aeventually(lambda: "/p/a" in mirror.items, what="the change")


async def test_what_the_watch_brings_of_the_past_never_undoes_the_list() -> None:
    store = MemoryStore()
    etcd, other = LateWatch(store), MemoryEtcd(store)
    await other.txn(Txn((), (Put("/p/start", b""),)))
    initial = await etcd.range("/p/")
    await other.txn(Txn((), (Put("/p/a", b"1"),)))
    await other.txn(Txn((), (Delete("/p/a"), Put("/p/b", b"2"))))
    async with Mirror(etcd, "/p/", initial) as mirror:
        await aeventually(lambda: "/p/b" in mirror.items, what="the list beside the watch")
        seen: list[set[str]] = []
        mirror.on_change = lambda: seen.append(set(mirror.items))
        etcd.go.set()
        await other.txn(Txn((), (Put("/p/end", b""),)))
        await aeventually(lambda: "/p/end" in mirror.items, what="the newest change")
        assert all("/p/a" not in items for items in seen)
