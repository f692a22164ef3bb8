"""The real `Etcd`: etcd3's messages and stubs on one grpc.aio channel, in the caller's event loop.

One client is one connection; all of its calls, watches and lease refreshes share it, and it starts no thread.
No write is retried here. etcd3's own client, its watch threads and locks are never used.
"""

import asyncio
import math
import random
from collections.abc import AsyncGenerator

from elasticjob_etcd.auth import GrpcEtcdAuth
from elasticjob_etcd.backoff import Random
from elasticjob_etcd.cert_reloader import CHECK_S, certificate_files, watch_files
from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import LeaseNotFound
from elasticjob_etcd.failover import FailoverWatchdog
from elasticjob_etcd.interface import Endpoint, KeyValue, Lease, Range, Txn, TxnResult, WatchBatch
from elasticjob_etcd.leases import KeepAliveStream
from elasticjob_etcd.messages import encode_key, key_value, prefix_range, range_of, rpc, txn_request, txn_result
from elasticjob_etcd.watch import watch

_FIRST_PAGE, _MAX_PAGE = 64, 4096
_PAGE_BYTES = 2 << 20
"""Of one page, about: the memory needed for keys that a reader drops."""


def next_limit(limit: int, size: int) -> int:
    """Return the number of keys of the next page, after one of `size` bytes."""
    if size > _PAGE_BYTES:
        return max(1, limit * _PAGE_BYTES // size)
    return min(_MAX_PAGE, limit * 2) if size < _PAGE_BYTES // 2 else limit


class EtcdClient:
    """A client of the etcd at `endpoint`; create it inside a running event loop, and close it.

    It connects with the first call. It connects again after the certificate files were replaced, for which it checks
    every `check_s` seconds. `rng` spreads the back-off of its watches. Raises `BadEndpoint`.
    """

    def __init__(self, endpoint: Endpoint, *, rng: Random = random.random, check_s: float = CHECK_S) -> None:
        self.endpoint = endpoint
        self._rng = rng
        self._connection = Connection(endpoint)
        self._failover = FailoverWatchdog(self._connection, rng)
        self._keep_alive = KeepAliveStream(self._connection, self._failover)
        self.auth = GrpcEtcdAuth(self._connection)
        """Users and roles; for an administrator."""
        self._cert_reload: asyncio.Task[None] | None = None
        if files := certificate_files(endpoint):
            reloading = watch_files(files, self._connection.redial, check_s=check_s)
            self._cert_reload = asyncio.create_task(reloading, name="renewal of certificates")

    async def get(self, key: str) -> KeyValue | None:
        """Read one key (linearizable)."""
        request = rpc.RangeRequest(key=encode_key(key))
        with self._failover.guard():
            response = await self._connection.call(self._connection.kv.Range, request, tried=f"read of {key}")
        return key_value(response.kvs[0]) if response.kvs else None

    async def range(self, prefix: str) -> Range:
        """Read all keys that start with `prefix` (linearizable)."""
        request = rpc.RangeRequest(**prefix_range(prefix))
        return range_of(await self._connection.call(self._connection.kv.Range, request, tried=f"list of {prefix}"))

    async def pages(self, prefix: str) -> AsyncGenerator[Range, None]:
        """Read all keys that start with `prefix`, page by page; raise `Compacted` if that takes minutes."""
        wanted, revision, limit = prefix_range(prefix), 0, _FIRST_PAGE
        while True:
            request = rpc.RangeRequest(**wanted, limit=limit, revision=revision)
            response = await self._connection.call(self._connection.kv.Range, request, tried=f"list of {prefix}")
            revision, limit = revision or response.header.revision, next_limit(limit, response.ByteSize())
            more, kvs = response.more, range_of(response).kvs
            if kvs:
                wanted["key"] = encode_key(kvs[-1].key) + b"\0"
            del response
            yield Range(kvs, revision)
            if not more:
                return

    async def txn(self, txn: Txn) -> TxnResult:
        """Run one transaction; after `Unavailable` it may or may not have taken place."""
        keys = [part.key for part in (*txn.compares, *txn.success, *txn.failure)]
        tried = f"transaction on {keys[0] if keys else 'nothing'}"
        return txn_result(txn, await self._connection.call(self._connection.kv.Txn, txn_request(txn), tried=tried))

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Yield every change under `prefix` from `start_revision` on; see the protocol."""
        since = self._connection.store_epoch.epoch()
        return watch(self._connection, prefix, start_revision=start_revision, since=since, rng=self._rng)

    async def lease_grant(self, ttl_s: float) -> Lease:
        """Grant a lease of at least `ttl_s` seconds; etcd may grant more."""
        request = rpc.LeaseGrantRequest(TTL=math.ceil(ttl_s))
        response = await self._connection.call(self._connection.lease.LeaseGrant, request, tried="grant of a lease")
        return Lease(id=response.ID, ttl_s=float(response.TTL))

    async def lease_keep_alive(self, lease_id: int) -> float:
        """Refresh once over the open stream; return the seconds granted, 0.0 if the lease has ended."""
        return await self._keep_alive.refresh(lease_id)

    async def lease_revoke(self, lease_id: int) -> bool:
        """End a lease and delete its keys in one revision; return False if it had ended already."""
        request = rpc.LeaseRevokeRequest(ID=lease_id)
        try:
            await self._connection.call(self._connection.lease.LeaseRevoke, request, tried="revoke of a lease")
        except LeaseNotFound:
            return False
        return True

    async def close(self) -> None:
        """End streams and the connection; idempotent."""
        if self._cert_reload is not None:
            self._cert_reload.cancel()
            await asyncio.wait({self._cert_reload})
        await self._failover.close()
        self._keep_alive.close()
        await self._connection.close()
