"""Keeping leases alive: the one open stream of a client, and the keeper of a single lease.

A refresh counts from the moment it was *sent*: etcd cannot have granted less. `LeaseKeeper` sets `lost` when
etcd reports it, or when no refresh succeeded for a whole TTL by the monotonic clock. From then on, other processes may
treat the owner as gone. It never grants or revokes.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable

from elasticjob_etcd.backoff import Backoff, Random
from elasticjob_etcd.connection import Connection, Stream
from elasticjob_etcd.errors import EtcdError, Unavailable
from elasticjob_etcd.failover import FailoverWatchdog
from elasticjob_etcd.interface import Etcd, Lease
from elasticjob_etcd.messages import rpc

_TRIED = "keeping a lease alive"

STALL = 0.25
"""A fraction of the TTL. Leases are refreshed every third of it. A stall may end another client's lease. A refresh of
this one is then unanswered for a third of the TTL, less the delay of that refresh.
"""


class KeepAliveStream:
    """The stream that all leases of a client share: one request and its answer at a time; opened on first use.

    A stream for each refresh takes five times as long. A request without an answer in time ends the stream, so a
    late answer can never be taken for that of a later request.
    """

    def __init__(self, connection: Connection, failover: FailoverWatchdog) -> None:
        self._connection = connection
        self._failover = failover
        self._lock = asyncio.Lock()
        self._stream: Stream | None = None

    async def refresh(self, lease_id: int) -> float:
        """Refresh a lease as `Etcd.lease_keep_alive` does."""
        try:
            async with asyncio.timeout(self._connection.timeout_s), self._lock:
                return await self._exchange(lease_id)
        except TimeoutError as error:
            message = f"etcd at {self._connection.where}: {_TRIED}: no answer in {self._connection.timeout_s} s"
            raise Unavailable(message) from error

    def close(self) -> None:
        """End the stream and drop it: gRPC holds a connection as long as one of its calls is referenced. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.cancel()

    async def _exchange(self, lease_id: int) -> float:
        sent = self._connection.store_epoch.epoch()
        stream = self._stream or self._connection.open_stream(
            self._connection.lease.LeaseKeepAlive, tried=_TRIED, wait_for_ready=False
        )
        self._stream = None
        try:
            with self._failover.guard():
                await stream.send(rpc.LeaseKeepAliveRequest(ID=lease_id))
                response = await stream.receive()
        except BaseException:
            stream.cancel()
            raise
        self._stream = stream  # reused only after a complete exchange
        self._connection.store_epoch.check_cluster(response.header.cluster_id, sent)
        return float(response.TTL)


class LeaseKeeper:
    """Refreshes one lease every third of its TTL, in a task of its own, until it is lost or `close` is called.

    `lost` is set once and for ever. `reason` then has the reason, and `on_lost` is called, which must not raise. Create
    it right after the grant, inside the loop.
    """

    def __init__(
        self,
        etcd: Etcd,
        lease: Lease,
        clock: Callable[[], float] = time.monotonic,
        *,
        rng: Random = random.random,
    ) -> None:
        self.lease = lease
        self.lost = asyncio.Event()
        self.reason = ""
        self.on_lost: Callable[[], None] = _noop
        self._etcd = etcd
        self._clock = clock
        self._backoff = Backoff(rng, max_s=lease.ttl_s / 3)
        self._last_error = "no answer"
        self._alive_until = clock() + lease.ttl_s
        self._unanswered_since_s: float | None = None
        self._stalled_at_s = -math.inf
        self._task: asyncio.Task[None] | None = asyncio.create_task(self._keep(), name=f"lease {lease.id:x}")

    @property
    def stalled_at_s(self) -> float:
        """The last time at which a refresh was unanswered for so long that other clients may have lost their leases."""
        since_s, now_s = self._unanswered_since_s, self._clock()
        if since_s is not None and now_s - since_s >= STALL * self.lease.ttl_s:
            self._stalled_at_s = now_s
        return self._stalled_at_s

    async def close(self) -> None:
        """Stop refreshing; the lease remains until it expires. Idempotent."""
        task, self._task = self._task, None  # its exception references the pending call, and so the connection
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _keep(self) -> None:
        pause_s = self.lease.ttl_s / 3
        try:
            while not self.lost.is_set():
                await asyncio.sleep(min(pause_s, max(0.0, self._alive_until - self._clock())))
                pause_s = await self._refresh()
        except Exception:
            self.mark_lost("its keeper failed")  # a bug; the owner must not continue as if the lease were alive
            raise

    async def _refresh(self) -> float:
        """Make one attempt; return the seconds to wait before the next."""
        sent = self._clock()
        if self._unanswered_since_s is None:
            self._unanswered_since_s = sent
        try:
            async with asyncio.timeout(max(0.0, self._alive_until - sent)):
                granted_s = await self._etcd.lease_keep_alive(self.lease.id)
        except TimeoutError:
            self._mark_lost_if_expired()
            return 0.0
        except EtcdError as error:
            self._last_error = str(error)
            self._mark_lost_if_expired()
            return self._backoff.next_s()
        self._stalled_at_s, self._unanswered_since_s = self.stalled_at_s, None
        if granted_s <= 0:
            self.mark_lost("etcd reports that it does not exist any more")
        self._alive_until = sent + granted_s
        self._backoff.reset()
        return granted_s / 3

    def _mark_lost_if_expired(self) -> None:
        if self._clock() >= self._alive_until:
            self.mark_lost(f"it was not refreshed for {self.lease.ttl_s:g} s ({self._last_error})")

    def mark_lost(self, reason: str) -> None:
        """Mark the lease as lost; its owner may call this, too."""
        if self.lost.is_set():
            return
        self.reason = f"lease {self.lease.id:x} is lost: {reason}"
        self.lost.set()
        self.on_lost()


def _noop() -> None:
    """Do nothing: the owner waits for `lost`."""
