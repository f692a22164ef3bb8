"""An `Etcd` that notes which keys pass through a mirror, so that only the jobs concerned are looked at.

A mirror says that something changed, not what. What a job has beyond its allowance is noted and goes no further: the
mirror is in memory. Everything else goes straight through.
"""

import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import cast

from elasticjob_etcd.protocol import Etcd, KeyValue, Lease, Range, Txn, TxnResult, WatchBatch, WatchEvent
from elasticjob_etcd.watching import Pause
from elasticjob_operator.cluster.footprint import Footprints
from elasticjob_operator.cluster.gathering import Gathering


class Tap:
    """In front of `etcd`; `touched` are the keys changed since it was last taken, None after a new list."""

    def __init__(self, etcd: Etcd, footprints: Footprints | None = None, gathering: Gathering | None = None) -> None:
        self._etcd = etcd
        self._footprints = footprints or Footprints(time.monotonic)
        self._gathering = gathering or Gathering(time.monotonic)
        self._touched: set[str] = set()
        self._relisted = False

    def take(self) -> set[str] | None:
        """The keys that changed since the last call; None: any may have."""
        touched, relisted = self._touched, self._relisted
        self._touched, self._relisted = set(), False
        return None if relisted else touched

    async def range(self, prefix: str) -> Range:
        """As `Etcd.range`; noted."""
        found = await self._etcd.range(prefix)
        self._relisted = True
        self._footprints.forget()
        return replace(found, kvs=tuple(kv for kv in found.kvs if self._footprints.holds(kv)))

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """As `Etcd.watch`; noted before the mirror takes it."""
        watch = self._etcd.watch(prefix, start_revision=start_revision)
        pause: Pause | None = None
        async with contextlib.aclosing(cast("AsyncGenerator[WatchBatch, Pause | None]", watch)) as stream:
            while True:
                try:
                    batch = await stream.asend(pause)
                except StopAsyncIteration:
                    return
                self._touched.update([event.kv.key for event in batch.events])
                events = tuple([event for event in batch.events if self._passes(event)])
                yield batch if len(events) == len(batch.events) else replace(batch, events=events)
                pause = self._gathering.pause

    def _passes(self, event: WatchEvent) -> bool:
        if event.deleted:
            self._footprints.dropped(event.kv.key)
            return True
        return self._footprints.wrote(event.kv)

    async def get(self, key: str) -> KeyValue | None:
        """As `Etcd.get`."""
        return await self._etcd.get(key)

    async def txn(self, txn: Txn) -> TxnResult:
        """As `Etcd.txn`; what it writes is waited for."""
        self._gathering.hurry()
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
