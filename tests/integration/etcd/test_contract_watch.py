"""Watches: what every `Etcd` promises, held against each store."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence

import pytest

from elasticjob_etcd.errors import Compacted, StoreReset, Unavailable
from elasticjob_etcd.interface import Delete, Etcd, Put, Txn, WatchBatch, WatchEvent
from tests.integration.etcd.conftest import Backend


async def put(store: Etcd, *keys: str, value: bytes = b"") -> int:
    return (await store.txn(Txn((), tuple(Put(key, value) for key in keys)))).revision


async def delete(store: Etcd, key: str) -> int:
    return (await store.txn(Txn((), (Delete(key),)))).revision


async def take(store: Etcd, prefix: str, start_revision: int, count: int) -> list[WatchBatch]:
    """Watch until `count` events have come."""
    batches: list[WatchBatch] = []
    async with asyncio.timeout(15), contextlib.aclosing(store.watch(prefix, start_revision=start_revision)) as watch:
        async for batch in watch:
            batches.append(batch)
            if len(events_of(batches)) >= count:
                break
    return batches


def events_of(batches: Sequence[WatchBatch]) -> list[WatchEvent]:
    return [event for batch in batches for event in batch.events]


def assert_whole_revisions(batches: Sequence[WatchBatch]) -> None:
    """No revision is split over two batches, and all are in order."""
    revisions = [[event.kv.mod_revision for event in batch.events] for batch in batches]
    assert all(batch == sorted(batch) for batch in revisions)
    assert all(earlier[-1] < later[0] for earlier, later in itertools.pairwise(revisions))
    assert [batch.revision for batch in batches] == [batch[-1] for batch in revisions]


async def test_a_watch_delivers_changes_since_its_revision(store: Etcd, prefix: str) -> None:
    await put(store, prefix + "before")
    start = await put(store, prefix + "a", value=b"1")
    await put(store, prefix + "a", value=b"2")
    last = await delete(store, prefix + "a")
    events = events_of(await take(store, prefix, start, 3))
    assert [(event.kv.value, event.deleted) for event in events] == [(b"1", False), (b"2", False), (b"", True)]
    assert [event.kv.version for event in events[:2]] == [1, 2]
    assert (events[2].kv.key, events[2].kv.mod_revision) == (prefix + "a", last)


async def test_a_watch_without_a_revision_begins_now_and_returns_its_revision(store: Etcd, prefix: str) -> None:
    before = await put(store, prefix + "before")
    async with asyncio.timeout(15), contextlib.aclosing(store.watch(prefix, start_revision=0)) as watch:
        begun = await anext(watch)
        assert (begun.events, begun.revision >= before) == ((), True)
        later = await put(store, prefix + "later")
        found = await anext(watch)
    assert [(event.kv.key, event.kv.mod_revision) for event in found.events] == [(prefix + "later", later)]


async def test_a_watch_delivers_later_changes(store: Etcd, prefix: str) -> None:
    start = (await store.range(prefix)).revision + 1
    watching = asyncio.create_task(take(store, prefix, start, 2))
    await put(store, prefix + "a")
    await put(store, prefix + "b")
    assert [event.kv.key for event in events_of(await watching)] == [prefix + "a", prefix + "b"]


async def test_a_watch_delivers_its_prefix_alone(store: Etcd, prefix: str) -> None:
    start = await put(store, prefix + "b/1", prefix + "b", prefix + "b0")
    await put(store, prefix + "b/2")
    events = events_of(await take(store, prefix + "b/", start, 2))
    assert [event.kv.key for event in events] == [prefix + "b/1", prefix + "b/2"]


async def test_all_writes_of_a_revision_come_in_one_batch(store: Etcd, prefix: str) -> None:
    keys = [f"{prefix}{i:03}" for i in range(128)]
    start = await put(store, *keys)
    batches = await take(store, prefix, start, 1)
    assert [event.kv.key for event in batches[0].events] == keys


async def test_a_long_history_is_delivered_in_order_and_in_whole_revisions(store: Etcd, prefix: str) -> None:
    # etcd catches a watch up in steps of 1,000 revisions
    start = (await store.range(prefix)).revision + 1
    for i in range(1_200):
        await put(store, f"{prefix}{i:04}a", f"{prefix}{i:04}b")
    batches = await take(store, prefix, start, 2_400)
    assert_whole_revisions(batches)
    assert [event.kv.key for event in events_of(batches)] == [f"{prefix}{i:04}{x}" for i in range(1_200) for x in "ab"]


async def test_watching_again_after_a_batch_repeats_and_misses_nothing(store: Etcd, prefix: str) -> None:
    start = (await store.range(prefix)).revision + 1
    for i in range(3):
        await put(store, f"{prefix}{i}")
    first = await take(store, prefix, start, 3)
    for i in range(3, 6):
        await put(store, f"{prefix}{i}")
    rest = await take(store, prefix, first[-1].revision + 1, 3)
    assert [event.kv.key for event in events_of([*first, *rest])] == [f"{prefix}{i}" for i in range(6)]


async def test_a_watch_keeps_up_with_concurrent_writers(backend: Backend, prefix: str) -> None:
    clients = [backend.connect() for _ in range(4)]
    start = (await clients[0].range(prefix)).revision + 1
    watching = asyncio.create_task(take(clients[0], prefix, start, 200))
    await asyncio.gather(*(put(client, f"{prefix}{n}.{i}") for i in range(50) for n, client in enumerate(clients)))
    batches = await watching
    assert_whole_revisions(batches)
    assert len({event.kv.key for event in events_of(batches)}) == len(events_of(batches)) == 200


async def test_several_watches_of_one_client_are_independent(store: Etcd, prefix: str) -> None:
    start = (await store.range(prefix)).revision + 1
    watching = [asyncio.create_task(take(store, f"{prefix}{i}", start, 1)) for i in range(5)]
    await put(store, *(f"{prefix}{i}" for i in range(5)))
    found = [events_of(await task) for task in watching]
    assert [[event.kv.key for event in events] for events in found] == [[f"{prefix}{i}"] for i in range(5)]


async def test_a_compacted_revision_cannot_be_watched(backend: Backend, prefix: str) -> None:
    store = backend.connect()
    first = await put(store, prefix + "a")
    second = await put(store, prefix + "b")
    await backend.compact(second)
    with pytest.raises(Compacted) as raised:
        await take(store, prefix, first, 1)
    assert raised.value.compact_revision == second


async def test_the_revision_of_a_compaction_itself_can_be_watched(backend: Backend, prefix: str) -> None:
    store = backend.connect()
    await put(store, prefix + "a")
    second = await put(store, prefix + "b")
    await backend.compact(second)
    assert [event.kv.key for event in events_of(await take(store, prefix, second, 1))] == [prefix + "b"]


async def test_a_compaction_takes_nothing_from_a_running_watch(backend: Backend, prefix: str) -> None:
    store = backend.connect()
    start = await put(store, prefix + "a")
    async with contextlib.aclosing(store.watch(prefix, start_revision=start)) as watch:
        assert (await anext(watch)).revision == start
        await backend.compact(await put(store, "/elsewhere"))
        await put(store, prefix + "b")
        assert [event.kv.key for event in (await anext(watch)).events] == [prefix + "b"]


async def test_a_revision_that_the_store_has_not_reached_means_another_store(store: Etcd, prefix: str) -> None:
    revision = await put(store, prefix)
    with pytest.raises(StoreReset):
        await take(store, prefix, revision + 1_000_000, 1)


async def test_a_cancelled_watcher_ends_and_the_client_goes_on(store: Etcd, prefix: str) -> None:
    start = (await store.range(prefix)).revision + 1
    watching = asyncio.create_task(take(store, prefix + "never", start, 1))
    await put(store, prefix)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert await store.get(prefix) is not None


async def test_a_closed_client_ends_its_watches_and_calls(store: Etcd, prefix: str) -> None:
    start = await put(store, prefix)
    watch = store.watch(prefix, start_revision=start)
    await anext(watch)
    waiting = asyncio.create_task(anext(watch))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="closed"):
        await waiting
    with pytest.raises(Unavailable, match="closed"):
        await store.get(prefix)
