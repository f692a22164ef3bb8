"""A mirror of each store while others write: it never shows anything that the store did not hold."""

import asyncio

import pytest

from elasticjob_etcd.interface import Delete, Etcd, Put, Txn
from elasticjob_etcd.mirror import Mirror
from tests.integration.etcd.conftest import Backend

Snapshot = dict[str, bytes]


async def write(store: Etcd, prefix: str, held: dict[int, Snapshot]) -> None:
    """Change two keys at a time, and note what the store holds at each revision."""
    for i in range(60):
        value = str(i).encode()
        gone, put = f"{prefix}{i % 3}", (f"{prefix}{(i + 1) % 3}", f"{prefix}both")
        result = await store.txn(Txn((), (Delete(gone), *(Put(key, value) for key in put))))
        before = held[max(held)]
        held[result.revision] = {key: kept for key, kept in before.items() if key != gone} | dict.fromkeys(put, value)


@pytest.mark.parametrize("stale", [True, False], ids=["from a stale list", "from its own list"])
async def test_each_state_of_a_mirror_is_one_that_the_store_was_in(
    backend: Backend, prefix: str, *, stale: bool
) -> None:
    writer, reader = backend.connect(), backend.connect()
    listed = await reader.range(prefix)
    held: dict[int, Snapshot] = {listed.revision: {}}
    writing = asyncio.create_task(write(writer, prefix, held))
    seen: list[tuple[int, Snapshot]] = []
    async with asyncio.timeout(60), Mirror(reader, prefix, listed if stale else None) as mirror:
        mirror.on_change = lambda: seen.append((mirror.revision, {key: kv.value for key, kv in mirror.items.items()}))
        await writing
        while mirror.revision < max(held):
            await mirror.wait_change(mirror.revision)
    revisions = [revision for revision, _ in seen]
    assert revisions == sorted(set(revisions))
    assert all(snapshot == held[revision] for revision, snapshot in seen if revision in held)
    assert {key: kv.value for key, kv in mirror.items.items()} == held[max(held)]
