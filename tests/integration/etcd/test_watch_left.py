"""A watch whose caller is away for a while: changes made meanwhile are delivered afterwards."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Self, cast

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Compacted, StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, WatchBatch
from elasticjob_etcd.watch import BatchDelay
from tests.integration.etcd.conftest import Backend, compact
from tests.integration.etcd.site import EtcdSite, answers, put


class Left:
    """A watch of `prefix` that has delivered one key, and whose caller is away; `back` ends the absence."""

    def __init__(self, store: Etcd, prefix: str) -> None:
        self._store, self._prefix = store, prefix
        self.back = asyncio.Event()
        self.is_left = asyncio.Event()
        self.keys: list[str] = []

    async def __aenter__(self) -> Self:
        start = await put(self._store, f"{self._prefix}first")
        watch = self._store.watch(self._prefix, start_revision=start)
        self._watch = cast("AsyncGenerator[WatchBatch, BatchDelay | None]", watch)
        await anext(self._watch)
        self.next = asyncio.create_task(self._watch.asend(self._wait))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.next.cancel()
        await asyncio.wait({self.next})
        await self._watch.aclose()

    async def _wait(self) -> None:
        self.is_left.set()
        await self.back.wait()

    async def delivered(self, count: int) -> list[str]:
        """Return the delivered keys, after so many."""
        async with asyncio.timeout(30):
            self.keys += [event.kv.key for event in (await self.next).events]
            while len(self.keys) < count:
                self.keys += [event.kv.key for event in (await anext(self._watch)).events]
        return self.keys


async def test_nothing_is_missed_or_repeated(backend: Backend, prefix: str) -> None:
    store = backend.connect()
    async with Left(store, prefix) as watch:
        for number in range(5):
            await put(store, f"{prefix}{number}")
        watch.back.set()
        await put(store, f"{prefix}5")
        assert await watch.delivered(6) == [f"{prefix}{number}" for number in range(6)]


@pytest.mark.etcd
async def test_what_has_come_meanwhile_is_one_batch(client: EtcdClient) -> None:
    async with Left(client, "p/") as watch:
        await watch.is_left.wait()
        for number in range(5):
            await put(client, f"p/{number}")
        watch.back.set()
        assert [event.kv.key for event in (await watch.next).events] == [f"p/{number}" for number in range(5)]


@pytest.mark.etcd
async def test_a_compaction_meanwhile_is_reported(site: EtcdSite, client: EtcdClient) -> None:
    async with Left(client, "p/") as watch:
        await watch.is_left.wait()
        await put(client, "p/a")
        await compact(site.server.endpoint, await put(client, "p/b"))
        watch.back.set()
        with pytest.raises(Compacted):
            await watch.delivered(1)


@pytest.mark.etcd
async def test_another_store_is_told_even_if_it_is_known_already_and_has_come_further(
    site: EtcdSite, client: EtcdClient
) -> None:
    async with Left(client, "p/") as watch:
        await watch.is_left.wait()
        await site.server.stop()
        await site.start("another")
        with pytest.raises(StoreReset):
            await answers(client)
        for number in range(10):
            await put(client, f"p/{number}")
        watch.back.set()
        with pytest.raises(StoreReset):
            await watch.delivered(1)


@pytest.mark.etcd
async def test_a_client_that_was_closed_meanwhile_says_so(client: EtcdClient) -> None:
    async with Left(client, "p/") as watch:
        await watch.is_left.wait()
        await client.close()
        watch.back.set()
        with pytest.raises(Unavailable, match="closed"):
            await watch.delivered(1)
