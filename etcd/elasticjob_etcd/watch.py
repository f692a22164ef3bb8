"""The watch: an endless stream of whole revisions that survives failures of the connection and of members.

Each attempt is one gRPC stream that begins after the last delivered revision, so nothing is lost or repeated.
etcd never splits a revision over two answers, because fragments are not requested. The header of an answer may be ahead
of its events (etcd sends old changes to a late watch in steps). So the position follows the events and the progress
notifications, which etcd sends only to watches that are up to date.

A caller that wants fewer, larger batches may send back an awaitable for a batch. No stream is open until it is done,
and etcd then delivers all changes since as one batch.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from elasticjob_etcd.backoff import Backoff, Random
from elasticjob_etcd.connection import Connection, Stream
from elasticjob_etcd.errors import StoreReset, Unavailable
from elasticjob_etcd.grpc_errors import from_watch_cancel
from elasticjob_etcd.interface import WatchBatch
from elasticjob_etcd.messages import prefix_range, rpc, watch_event
from elasticjob_etcd.store_epoch import Epoch

BatchDelay = Callable[[], Awaitable[None]]
"""May be sent back for a batch, and is awaited before the watch continues; etcd is up to 100 ms late then."""


async def watch(
    connection: Connection, prefix: str, *, start_revision: int, since: Epoch, rng: Random
) -> AsyncGenerator[WatchBatch, BatchDelay | None]:
    """Yield as `Etcd.watch` over one connection; `since` is the epoch that `start_revision` is of."""
    backoff = Backoff(rng)
    attempt = _WatchStream(connection, prefix, start_revision, since)
    is_confirmed = start_revision > 0
    while True:
        pause: BatchDelay | None = None
        try:
            await attempt.begin()
            backoff.reset()
            if not is_confirmed:
                is_confirmed = True
                pause = yield WatchBatch((), attempt.position)
            while pause is None:
                if batch := await attempt.next_batch():
                    pause = yield batch
        except Unavailable:
            connection.require_open()
            await backoff.pause()
        finally:
            attempt.end()
        if pause is not None:
            await pause()


class _WatchStream:
    """The current stream of one watch, and the first revision of the next one."""

    def __init__(self, connection: Connection, prefix: str, next_revision: int, since: Epoch) -> None:
        self._connection = connection
        self._prefix = prefix
        self._next_revision = next_revision
        self._since = since
        self._tried = f"watch of {prefix} from revision {next_revision}"
        self._stream: Stream | None = None

    async def begin(self) -> None:
        """Open a stream and wait until etcd confirms the watch; raise as `Etcd.watch` does."""
        known = self._connection.store_epoch.epoch()
        self._stream = self._connection.open_stream(
            self._connection.watch.Watch, tried=self._tried, wait_for_ready=True
        )
        request = rpc.WatchCreateRequest(
            start_revision=self._next_revision, progress_notify=True, **prefix_range(self._prefix)
        )
        await self._stream.send(rpc.WatchRequest(create_request=request))
        created = await self._stream.receive()
        if created.canceled:
            await self._count()  # raises the reason: etcd answers a watch with no more than *not permitted*
        created = self._check(created)
        if not self._next_revision:
            self._next_revision = created.header.revision + 1
        elif created.header.revision < max(known.revision, self._next_revision - 1):
            await self._confirm_position()

    @property
    def position(self) -> int:
        """Return the last revision that was delivered, or the one before its first."""
        return self._next_revision - 1

    async def next_batch(self) -> WatchBatch | None:
        """Return etcd's next batch; None for a progress notification."""
        assert self._stream is not None
        response = self._check(await self._stream.receive())
        if not response.events:
            self._next_revision = max(self._next_revision, response.header.revision + 1)
            return None
        events = tuple(watch_event(event) for event in response.events)
        revision = events[-1].kv.mod_revision
        self._next_revision = revision + 1
        self._connection.store_epoch.observe(revision)
        return WatchBatch(events, revision)

    def end(self) -> None:
        """Close the current stream, if there is one."""
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _check(self, response: Any) -> Any:
        self._connection.store_epoch.check_cluster(response.header.cluster_id, self._since)
        if response.canceled:
            raise from_watch_cancel(response, tried=self._tried, where=self._connection.where)
        return response

    async def _count(self) -> Any:
        probe = rpc.RangeRequest(**prefix_range(self._prefix), count_only=True)
        return await self._connection.call(self._connection.kv.Range, probe, tried=self._tried)

    async def _confirm_position(self) -> None:
        # The member that answers may merely lag behind. A linearizable read cannot: it distinguishes a wipe from a lag.
        response = await self._count()
        if response.header.revision < self._next_revision - 1:
            message = (
                f"etcd at {self._connection.where} is at revision {response.header.revision}, "
                f"a watch of {self._prefix} would continue at {self._next_revision}: it was restored or wiped"
            )
            raise StoreReset(message)
