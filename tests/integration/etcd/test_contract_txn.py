"""Reads and transactions: what every `Etcd` promises, held against each store."""

import asyncio
from typing import cast

import pytest

from elasticjob_etcd.errors import LeaseNotFound, RequestRejected
from elasticjob_etcd.interface import (
    Compare,
    Delete,
    Etcd,
    Get,
    KeyValue,
    Op,
    PagedEtcd,
    Put,
    Range,
    Target,
    Txn,
    TxnResult,
    absent,
    leased,
    reads_of,
    unchanged,
)
from tests.integration.etcd.conftest import Backend

UNKNOWN_LEASE = 0x7777


async def run(store: Etcd, *ops: Op) -> TxnResult:
    return await store.txn(Txn((), ops))


async def holds(store: Etcd, compare: Compare) -> bool:
    return (await store.txn(Txn((compare,), (Get(compare.key),), (Get(compare.key),)))).succeeded


def keys_of(listed: Range, prefix: str) -> list[str]:
    return [kv.key.removeprefix(prefix) for kv in listed.kvs]


async def test_a_put_key_is_read_back_with_its_revisions(store: Etcd, prefix: str) -> None:
    result = await run(store, Put(prefix + "a", b"1"))
    assert await store.get(prefix + "a") == KeyValue(prefix + "a", b"1", result.revision, result.revision, 1)


async def test_a_second_put_keeps_the_create_revision_and_counts_the_version(store: Etcd, prefix: str) -> None:
    first = await run(store, Put(prefix + "a", b"1"))
    second = await run(store, Put(prefix + "a", b""))
    assert await store.get(prefix + "a") == KeyValue(prefix + "a", b"", first.revision, second.revision, 2)


async def test_a_key_created_again_begins_at_version_one(store: Etcd, prefix: str) -> None:
    await run(store, Put(prefix + "a", b"1"))
    await run(store, Delete(prefix + "a"))
    again = await run(store, Put(prefix + "a", b"2"))
    assert await store.get(prefix + "a") == KeyValue(prefix + "a", b"2", again.revision, again.revision, 1)


async def test_pages_hold_what_a_list_does_though_keys_change_meanwhile(store: Etcd, prefix: str) -> None:
    names = [f"{prefix}{number:04d}" for number in range(300)]
    for first in range(0, len(names), 100):
        await run(store, *(Put(name, bytes(2000)) for name in names[first : first + 100]))
    listed = await store.range(prefix)
    pages = []
    async for page in cast("PagedEtcd", store).pages(prefix):
        pages.append(page)
        await run(store, Put(names[-1], b"changed"), Delete(names[-2]), Put(prefix + "z", b"new"))
    assert len(pages) > 1
    assert tuple(kv for page in pages for kv in page.kvs) == listed.kvs
    assert {page.revision for page in pages} == {listed.revision}


async def test_a_list_of_nothing_has_one_page(store: Etcd, prefix: str) -> None:
    assert [page.kvs async for page in cast("PagedEtcd", store).pages(prefix)] == [()]


async def test_a_missing_key_reads_as_none(store: Etcd, prefix: str) -> None:
    assert await store.get(prefix + "missing") is None


async def test_a_range_lists_its_prefix_alone_in_key_order(store: Etcd, prefix: str) -> None:
    result = await run(store, *(Put(prefix + key, b"") for key in ("b/2", "b/1", "b", "a", "c", "b0", "b/é")))
    listed = await store.range(prefix + "b/")
    assert keys_of(listed, prefix) == ["b/1", "b/2", "b/é"]
    assert listed.revision >= result.revision


@pytest.mark.parametrize("stem", ["x\udcff", "x\udcff\udcff", "x\U0010ffff"], ids=["ff", "ffff", "last character"])
async def test_a_prefix_may_end_in_the_highest_byte_or_character(store: Etcd, prefix: str, stem: str) -> None:
    await run(store, Put(prefix + stem, b""), Put(prefix + stem + "1", b""), Put(prefix + "y", b""))
    assert keys_of(await store.range(prefix + stem), prefix) == [stem, stem + "1"]


async def test_the_empty_prefix_is_every_key(store: Etcd, prefix: str) -> None:
    await run(store, Put(prefix + "a", b""))
    assert prefix + "a" in [kv.key for kv in (await store.range("")).kvs]


TARGETS = [Target.CREATE, Target.MOD, Target.VERSION, Target.LEASE, Target.VALUE]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_comparison_holds_exactly_for_the_value_the_key_has(store: Etcd, prefix: str, target: Target) -> None:
    lease = await store.lease_grant(60)
    await run(store, Put(prefix + "a", b"1", lease.id))
    kv = await store.get(prefix + "a")
    actual = getattr(kv, target.value)
    other = b"2" if target is Target.VALUE else actual + 1
    assert await holds(store, Compare(prefix + "a", target, actual))
    assert not await holds(store, Compare(prefix + "a", target, other))


@pytest.mark.parametrize("target", TARGETS[:-1])
async def test_a_missing_key_compares_as_zero(store: Etcd, prefix: str, target: Target) -> None:
    assert await holds(store, Compare(prefix + "a", target, 0))
    assert not await holds(store, Compare(prefix + "a", target, 1))


async def test_a_missing_key_has_no_value_to_equal(store: Etcd, prefix: str) -> None:
    assert not await holds(store, Compare(prefix + "a", Target.VALUE, b""))


async def test_the_named_comparisons_have_their_meaning(store: Etcd, prefix: str) -> None:
    key = prefix + "a"
    assert await holds(store, absent(key))
    lease = await store.lease_grant(60)
    result = await run(store, Put(key, b"", lease.id))
    assert not await holds(store, absent(key))
    assert await holds(store, unchanged(key, result.revision))
    assert await holds(store, leased(key, lease.id))
    assert not await holds(store, leased(key, lease.id + 1))


async def test_one_comparison_that_fails_runs_the_failure_branch(store: Etcd, prefix: str) -> None:
    result = await run(store, Put(prefix + "a", b"1"))
    compares = (unchanged(prefix + "a", result.revision), absent(prefix + "a"))
    outcome = await store.txn(
        Txn(compares, (Put(prefix + "b", b"yes"),), (Put(prefix + "b", b"no"), Get(prefix + "a")))
    )
    assert not outcome.succeeded
    assert [kv.value for kv in reads_of(outcome)] == [b"1"]
    assert [kv.value for kv in (await store.range(prefix + "b")).kvs] == [b"no"]


async def test_a_transaction_without_operations_returns_whether_it_succeeds(store: Etcd, prefix: str) -> None:
    assert (await store.txn(Txn((absent(prefix),), ()))).succeeded
    assert not (await store.txn(Txn((unchanged(prefix, 1),), ()))).succeeded
    assert (await store.txn(Txn((), ()))).reads == ()


async def test_reads_in_a_transaction_see_the_writes_before_them(store: Etcd, prefix: str) -> None:
    await run(store, Put(prefix + "a", b"old"), Put(prefix + "b", b""))
    ops = (
        Get(prefix + "a"),
        Put(prefix + "a", b"new"),
        Get(prefix + "a"),
        Delete(prefix + "b"),
        Get(prefix, prefix=True),
    )
    result = await run(store, *ops)
    assert [[kv.value for kv in read] for read in result.reads] == [[b"old"], [b"new"], [b"new"]]


async def test_all_writes_of_a_transaction_share_one_revision(store: Etcd, prefix: str) -> None:
    before = await run(store, Put(prefix + "x", b""))
    result = await run(store, Put(prefix + "a", b""), Put(prefix + "b", b""), Delete(prefix + "x"))
    assert {kv.mod_revision for kv in (await store.range(prefix)).kvs} == {result.revision}
    assert result.revision > before.revision


async def test_deleting_a_prefix_deletes_nothing_else(store: Etcd, prefix: str) -> None:
    await run(store, *(Put(prefix + key, b"") for key in ("a", "a/1", "a/2", "a0", "b")))
    await run(store, Delete(prefix + "a/", prefix=True))
    assert keys_of(await store.range(prefix), prefix) == ["a", "a0", "b"]


async def test_an_unknown_lease_fails_the_whole_transaction(store: Etcd, prefix: str) -> None:
    with pytest.raises(LeaseNotFound):
        await run(store, Put(prefix + "a", b""), Put(prefix + "b", b"", UNKNOWN_LEASE))
    assert (await store.range(prefix)).kvs == ()


async def test_an_unknown_lease_in_the_branch_not_taken_is_no_error(store: Etcd, prefix: str) -> None:
    txn = Txn((absent(prefix + "a"),), (Put(prefix + "a", b""),), (Put(prefix + "a", b"", UNKNOWN_LEASE),))
    assert (await store.txn(txn)).succeeded


@pytest.mark.parametrize("count", [1, 128])
async def test_a_transaction_may_hold_up_to_128_operations(store: Etcd, prefix: str, count: int) -> None:
    compares = tuple(absent(f"{prefix}{i}") for i in range(count))
    result = await store.txn(Txn(compares, tuple(Put(f"{prefix}{i}", b"") for i in range(count))))
    assert result.succeeded
    assert len((await store.range(prefix)).kvs) == count


MALFORMED = [
    pytest.param(Txn((), tuple(Get(f"{i}") for i in range(129))), id="129 operations"),
    pytest.param(Txn(tuple(absent(f"{i}") for i in range(129)), ()), id="129 comparisons"),
    pytest.param(Txn((), (Put("a", b"1"), Put("a", b"2"))), id="a key put twice"),
    pytest.param(Txn((), (Put("a", b"1"), Delete("a"))), id="a key put and deleted"),
    pytest.param(Txn((), (), (Delete("a", prefix=True), Put("ab", b""))), id="put under a deleted prefix"),
    pytest.param(Txn((), (Put("", b""),)), id="put of the empty key"),
    pytest.param(Txn((absent(""),), ()), id="comparison of the empty key"),
    pytest.param(Txn((), (Put("a", bytes(2_000_000)),)), id="2 MB"),
    pytest.param(Txn((), (Put("a", bytes(3_000_000)),)), id="3 MB"),
]


@pytest.mark.parametrize("txn", MALFORMED)
async def test_a_malformed_transaction_is_refused(store: Etcd, txn: Txn) -> None:
    with pytest.raises(RequestRejected):
        await store.txn(txn)


async def test_a_value_of_1_4_mb_is_kept(store: Etcd, prefix: str) -> None:
    value = bytes(range(256)) * (1_400_000 // 256)
    await run(store, Put(prefix + "a", value))
    kv = await store.get(prefix + "a")
    assert kv is not None
    assert kv.value == value


async def test_a_listing_may_be_larger_than_what_grpc_takes_by_default(store: Etcd, prefix: str) -> None:
    for i in range(5):
        await run(store, Put(f"{prefix}{i}", bytes(1_000_000)))
    assert len((await store.range(prefix)).kvs) == 5
    await run(store, Delete(prefix, prefix=True))


async def test_of_many_that_create_a_key_at_once_one_succeeds(backend: Backend, prefix: str) -> None:
    clients = [backend.connect() for _ in range(8)]
    txns = [Txn((absent(prefix),), (Put(prefix, str(i).encode()),), (Get(prefix),)) for i in range(8)]
    results = await asyncio.gather(*(client.txn(txn) for client, txn in zip(clients, txns, strict=True)))
    winners = [i for i, result in enumerate(results) if result.succeeded]
    assert len(winners) == 1
    found = {kv.value for result in results for kv in reads_of(result)}
    assert found == {str(winners[0]).encode()}


async def test_concurrent_compare_and_swap_loses_no_update(backend: Backend, prefix: str) -> None:
    async def add_one(client: Etcd) -> None:
        while True:
            kv = await client.get(prefix)
            count, revision = (int(kv.value), kv.mod_revision) if kv else (0, 0)
            swap = Txn((unchanged(prefix, revision),), (Put(prefix, str(count + 1).encode()),))
            if (await client.txn(swap)).succeeded:
                return

    clients = [backend.connect() for _ in range(3)]
    await asyncio.gather(*(add_one(client) for client in clients * 5))
    kv = await clients[0].get(prefix)
    assert kv is not None
    assert (kv.value, kv.version) == (b"15", 15)
