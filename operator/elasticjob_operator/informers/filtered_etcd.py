"""An `Etcd` that notes which keys pass through a mirror, so that only the jobs concerned are looked at.

A mirror says that something changed, not what. What a job has beyond its allowance is noted and goes no further: the
mirror is in memory. Of many long failures only the codes go further. Everything else goes straight through.

A list comes in pages: what is not kept of one is gone before the next.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import replace
from typing import cast

from elasticjob_etcd.errors import RelistRequired
from elasticjob_etcd.interface import KeyValue, Lease, PagedEtcd, Range, Txn, TxnResult, WatchBatch, WatchEvent
from elasticjob_etcd.watch import BatchDelay
from elasticjob_operator.informers.batching import WatchBatcher
from elasticjob_operator.informers.etcd_usage import EtcdUsage
from elasticjob_operator.informers.record_validation import reduced_failure
from elasticjob_operator.model import job_key


class FilteredEtcd:
    """In front of `etcd`; `touched` are the keys changed since it was last taken, None after a new list."""

    def __init__(self, etcd: PagedEtcd, usage: EtcdUsage | None = None, batcher: WatchBatcher | None = None) -> None:
        self._etcd = etcd
        self._usage = usage or EtcdUsage(time.monotonic)
        self._batcher = batcher or WatchBatcher(time.monotonic)
        self._touched: set[str] = set()
        self._relisted = False
        self._must_list = False

    def drain_touched(self) -> set[str] | None:
        """The keys that changed since the last call; None: any may have."""
        touched, relisted = self._touched, self._relisted
        self._touched, self._relisted = set(), False
        return None if relisted else touched

    async def range(self, prefix: str) -> Range:
        """As `Etcd.range`; noted."""
        self._relisted = True
        self._usage.forget()
        kept: dict[str, KeyValue] = {}
        revision = 0
        async with contextlib.aclosing(self._etcd.pages(prefix)) as pages:
            async for page in pages:
                revision = page.revision
                kept |= {kv.key: self._reduce(kv) for kv in page.kvs if self._usage.account_stored(kv)}
                if expelled := self._usage.drain_over_quota():
                    kept = {key: kv for key, kv in kept.items() if job_key.key_of_etcd_key(key) not in expelled}
        return Range(tuple(kept.values()), revision)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """As `Etcd.watch`; noted before the mirror takes it."""
        watch = self._etcd.watch(prefix, start_revision=start_revision)
        is_first = True
        pause: BatchDelay | None = None
        async with contextlib.aclosing(cast("AsyncGenerator[WatchBatch, BatchDelay | None]", watch)) as stream:
            while True:
                try:
                    batch = await stream.asend(pause)
                except StopAsyncIteration:
                    return
                if is_first and self._must_list:
                    self._must_list, batch = (
                        False,
                        replace(batch, revision=-1),
                    )  # the mirror lists, since it has none of it
                is_first = False
                self._touched.update([event.kv.key for event in batch.events])
                yield replace(batch, events=tuple(self._filter(batch.events)))
                pause = self._batcher.batch_delay
                if self._usage.drain_must_list():
                    self._must_list = True
                    raise RelistRequired  # what was not kept is allowed now, and only a list has it

    def _filter(self, events: Iterable[WatchEvent]) -> Iterator[WatchEvent]:
        for event in events:
            if event.deleted:
                self._usage.account_delete(event.kv.key)
                yield event
            elif self._usage.account_write(event.kv):
                yield replace(event, kv=self._reduce(event.kv))

    def _reduce(self, kv: KeyValue) -> KeyValue:
        return replace(kv, value=reduced_failure(kv.value)) if self._usage.must_reduce(kv) else kv

    async def get(self, key: str) -> KeyValue | None:
        """As `Etcd.get`."""
        return await self._etcd.get(key)

    async def txn(self, txn: Txn) -> TxnResult:
        """As `Etcd.txn`; what it writes is waited for."""
        self._batcher.flush()
        return await self._etcd.txn(txn)

    async def lease_grant(self, ttl_s: float) -> Lease:
        """As `Etcd.lease_grant`."""
        return await self._etcd.lease_grant(ttl_s)

    async def lease_keep_alive(self, lease_id: int) -> float:
        """As `Etcd.lease_keep_alive`."""
        return await self._etcd.lease_keep_alive(lease_id)

    async def lease_revoke(self, lease_id: int) -> bool:
        """As `Etcd.lease_revoke`."""
        return await self._etcd.lease_revoke(lease_id)

    async def close(self) -> None:
        """As `Etcd.close`."""
        await self._etcd.close()
