"""A real etcd with the interface of the simulation's store: the same histories are played on it, call by call.

Nothing else uses this etcd. One watch of all keys shows its changes. A call returns when the watch has shown its own
change, so that a history sees the same as in memory. A wipe is another server on an empty folder. A snapshot is the
data of a stopped server. Leases have the numbers that the in-memory store gives, and outlive any history: the history
decides when one expires.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import grpc.aio

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Delete, Endpoint, KeyValue, Lease, Put, Range, Txn, TxnResult, WatchEvent
from elasticjob_etcd.messages import rpc
from testing.servers.etcds import OwnEtcd
from tests.unit.rendezvous.sim.store import SimStore

T = TypeVar("T")

_LASTS_S = 36_000
_COMES_THROUGH_S = 30.0
_AT_ONCE = 200


class _Epoch:
    """One etcd from its start to its end: a client, and all that its watch has shown."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.client = EtcdClient(replace(endpoint, timeout_s=_COMES_THROUGH_S))
        self.channel = grpc.aio.insecure_channel(endpoint.targets[0])
        self.events: list[WatchEvent] = []
        self.revision = 0
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Watch all keys from now on."""
        self.revision = (await self.client.range("")).revision
        self._watch = asyncio.create_task(self._follow(), name="watch of all keys")

    async def _follow(self) -> None:
        async with contextlib.aclosing(self.client.watch("", start_revision=self.revision + 1)) as batches:
            async for batch in batches:
                self.events += batch.events
                self.revision = batch.revision
                self._changed.set()

    async def wait_shown(self, revision: int) -> None:
        """Wait until the watch has reached this revision."""
        async with asyncio.timeout(_COMES_THROUGH_S):
            while self.revision < revision:
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> None:
        """Close the client and its watch."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self.client.close()
        await self.channel.close(None)


class RealStore(SimStore):
    """A `SimStore` on etcd; `close` leaves etcd as empty as it was."""

    def __init__(self, etcd: OwnEtcd) -> None:
        super().__init__()
        self._etcd = etcd
        self._runner = asyncio.Runner()
        self._numbers = itertools.count(0x10)
        self._refreshed: dict[int, int] = {}
        self._refreshed_then: dict[int, int] = {}
        self._newest = 0
        self._begin()

    def _begin(self) -> None:
        self._epoch = self._await(self._make_epoch())
        self.revision = self._epoch.revision

    async def _make_epoch(self) -> _Epoch:
        epoch = _Epoch(self._etcd.where)
        await epoch.begin()
        return epoch

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _notify_changes(self) -> None:
        """Notify the observers of all changes that the watch has shown, as the in-memory store does."""
        if self._epoch.revision > self.revision:
            self.revision = self._epoch.revision
            self._notify()

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: str) -> KeyValue | None:
        return self._await(self._epoch.client.get(key))

    def range(self, prefix: str) -> Range:
        return self._await(self._epoch.client.range(prefix))

    def events_since(self, revision: int, prefix: str) -> tuple[WatchEvent, ...]:
        found = (event for event in self._epoch.events if event.kv.mod_revision >= revision)
        return tuple(event for event in found if event.kv.key.startswith(prefix))

    # -- writing ---------------------------------------------------------------------------------

    def txn(self, txn: Txn) -> TxnResult:
        async def run() -> TxnResult:
            result = await self._epoch.client.txn(txn)
            await self._epoch.wait_shown(result.revision)
            return result

        result = self._await(run())
        self._notify_changes()
        return result

    def grant(self, ttl_s: float) -> Lease:
        number = next(self._numbers)
        request = rpc.LeaseGrantRequest(TTL=_LASTS_S, ID=number)

        async def run() -> None:
            await rpc.LeaseStub(self._epoch.channel).LeaseGrant(request, timeout=_COMES_THROUGH_S)

        self._await(run())
        self._refreshed[number] = 0
        return Lease(number, max(float(ttl_s), 2.0))

    def keep_alive(self, lease_id: int) -> float:
        granted_s = self._await(self._epoch.client.lease_keep_alive(lease_id))
        assert (granted_s > 0) == (lease_id in self._refreshed)
        if granted_s:
            self._refreshed[lease_id] += 1
        return granted_s

    def refreshes(self, lease_id: int) -> int | None:
        return self._refreshed.get(lease_id)

    def revoke(self, lease_id: int) -> bool:
        async def run() -> bool:
            revoked = await self._epoch.client.lease_revoke(lease_id)
            await self._epoch.wait_shown((await self._epoch.client.range("no such key")).revision)
            return revoked

        revoked = self._await(run())
        assert revoked == (self._refreshed.pop(lease_id, None) is not None)
        self._notify_changes()
        return revoked

    # -- faults of a store -----------------------------------------------------------------------

    def wipe(self) -> None:
        self._end_epoch()
        self._etcd.wipe()
        self._refreshed.clear()
        self._begin_cluster()

    @property
    def is_backed_up(self) -> bool:
        return self._etcd.is_backed_up

    def back_up(self) -> None:
        self._etcd.back_up()
        self._refreshed_then = dict(self._refreshed)

    def restore(self) -> None:
        self._end_epoch()
        self._etcd.restore()
        self._refreshed = dict(self._refreshed_then)
        self._begin_cluster(beyond=self._newest + 1)

    def _end_epoch(self) -> None:
        self._newest = max(self._newest, self.revision)
        self._await(self._epoch.end())

    def _begin_cluster(self, *, beyond: int = 0) -> None:
        """Begin another cluster; revisions of one store mean nothing in another."""
        self._begin()
        self._await(self._write_until(beyond))
        self.cluster_id += 1
        self.revision = self._epoch.revision
        self._notify()

    async def _write_until(self, revision: int) -> None:
        filler = Txn((), (Put("filler", b""),))
        while self._epoch.revision < revision:
            done = await asyncio.gather(*(self._epoch.client.txn(filler) for _ in range(_AT_ONCE)))
            await self._epoch.wait_shown(max(result.revision for result in done))
        emptied = await self._epoch.client.txn(Txn((), (Delete("filler"),)))
        await self._epoch.wait_shown(emptied.revision)

    def close(self) -> None:
        """Delete all keys, and close the client."""
        for lease in tuple(self._refreshed):
            self.revoke(lease)
        self._await(self._epoch.client.txn(Txn((), (Delete("", prefix=True),))))
        self._await(self._epoch.end())
        self._etcd.forget_backup()
        self._runner.close()
