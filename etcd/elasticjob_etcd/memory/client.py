"""The in-memory `Etcd`, for tests and models: shipped, and tested by the same contract tests as the real one.

An `InMemoryEtcd` is one client of a shared `InMemoryStore`. Leases expire by the event loop's clock unless they are
kept alive, also after their client was closed. No request is ever lost, so every outcome is known; `disconnect` cuts
one client off, as a partition would.
"""

import asyncio
from collections.abc import AsyncGenerator

from elasticjob_etcd.errors import StoreReset, Unavailable
from elasticjob_etcd.interface import KeyValue, Lease, Range, Txn, TxnResult, WatchBatch
from elasticjob_etcd.memory.store import InMemoryStore
from elasticjob_etcd.store_epoch import Epoch, StoreEpochTracker

_PAGE = 100

__all__ = ["InMemoryEtcd", "InMemoryStore"]


class InMemoryEtcd:
    """One client of `store`, with the whole protocol, in the running event loop."""

    def __init__(self, store: InMemoryStore) -> None:
        self.store = store
        self._identity = StoreEpochTracker()
        self._closed = False
        self._connected = True
        self._wakers: set[asyncio.Event] = set()  # of the waiting watches

    async def get(self, key: str) -> KeyValue | None:
        """Read one key."""
        sent = await self._send()
        kv = self.store.get(key)
        self._check_epoch(sent)
        return kv

    async def range(self, prefix: str) -> Range:
        """Read all keys that start with `prefix`."""
        sent = await self._send()
        found = self.store.range(prefix)
        self._check_epoch(sent)
        return found

    async def pages(self, prefix: str) -> AsyncGenerator[Range, None]:
        """Read all keys that start with `prefix`, a few at a time."""
        found = await self.range(prefix)
        for first in range(0, max(1, len(found.kvs)), _PAGE):
            yield Range(found.kvs[first : first + _PAGE], found.revision)

    async def txn(self, txn: Txn) -> TxnResult:
        """Run one transaction."""
        sent = await self._send()
        result = self.store.txn(txn)
        self._check_epoch(sent)
        return result

    async def lease_grant(self, ttl_s: float) -> Lease:
        """Grant a lease; it expires by the loop's clock."""
        sent = await self._send()
        lease = self.store.grant(ttl_s)
        self._expire_later(lease.id, lease.ttl_s)
        self._check_epoch(sent)
        return lease

    async def lease_keep_alive(self, lease_id: int) -> float:
        """Refresh once; return the seconds granted, 0.0 if the lease has ended."""
        sent = await self._send()
        granted_s = self.store.keep_alive(lease_id)
        if granted_s:
            self._expire_later(lease_id, granted_s)
        self._identity.check_cluster(self.store.cluster_id, sent)
        return granted_s

    async def lease_revoke(self, lease_id: int) -> bool:
        """End a lease and delete its keys in one revision."""
        sent = await self._send()
        revoked = self.store.revoke(lease_id)
        self._check_epoch(sent)
        return revoked

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Yield every change under `prefix` from `start_revision` on; see the protocol."""
        return self._watch(prefix, start_revision, self._identity.epoch())

    async def _watch(self, prefix: str, next_revision: int, since: Epoch) -> AsyncGenerator[WatchBatch, None]:
        changed = asyncio.Event()
        self.store.listeners.add(changed.set)
        self._wakers.add(changed)
        try:
            while True:
                changed.clear()
                if self._is_reachable():
                    self._check_epoch(since)
                    if not next_revision:
                        next_revision = self.store.revision + 1
                        yield WatchBatch((), next_revision - 1)
                        continue
                    self._require_reached(next_revision - 1)
                    if events := self.store.events_since(next_revision, prefix):
                        next_revision = events[-1].kv.mod_revision + 1
                        yield WatchBatch(events, next_revision - 1)
                        continue
                await changed.wait()
        finally:
            self.store.listeners.discard(changed.set)
            self._wakers.discard(changed)

    def _require_reached(self, revision: int) -> None:
        if self.store.revision < revision:
            message = f"the in-memory etcd is at revision {self.store.revision}, but a watch knows {revision}"
            raise StoreReset(message)

    async def close(self) -> None:
        """End watches; leases remain. Idempotent."""
        self._closed = True
        self._wake()

    def disconnect(self) -> None:
        """Cut this client off: calls raise `Unavailable`, watches deliver nothing."""
        self._connected = False

    def reconnect(self) -> None:
        """End a `disconnect`; watches continue at their revision."""
        self._connected = True
        self._wake()

    def _wake(self) -> None:
        for changed in self._wakers:
            changed.set()

    async def _send(self) -> Epoch:
        sent = self._identity.epoch()
        await asyncio.sleep(0)  # other tasks run, as they would during a request
        if not self._is_reachable():
            raise Unavailable("the in-memory etcd is disconnected")
        return sent

    def _is_reachable(self) -> bool:
        if self._closed:
            raise Unavailable("the client of the in-memory etcd is closed")
        return self._connected

    def _check_epoch(self, sent: Epoch) -> None:
        self._identity.check(self.store.cluster_id, self.store.revision, sent)

    def _expire_later(self, lease_id: int, ttl_s: float) -> None:
        refreshes = self.store.refreshes(lease_id)
        asyncio.get_running_loop().call_later(ttl_s, self._expire, lease_id, refreshes)

    def _expire(self, lease_id: int, refreshes: int | None) -> None:
        if self.store.refreshes(lease_id) == refreshes:  # not refreshed since
            self.store.expire(lease_id)
