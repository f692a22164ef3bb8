"""The watch: an endless stream of whole revisions that survives what happens between us and etcd.

Each attempt is one gRPC stream that begins after the last revision handed out, so nothing is lost or repeated.
etcd never splits a revision over two answers, because fragments are not asked for. The header of an answer may
be ahead of its events (etcd catches a late watch up in steps), so events move the position, and progress notes,
which etcd sends only to watches that have caught up.

A caller that gets more batches than it wants one by one may send back an awaitable for a batch. No stream is open until
it is done, and etcd then delivers everything since as one.
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
"""May be sent back for a batch, and is awaited before the watch goes on: etcd is up to 100 ms late then."""


async def watch(
    connection: Connection, prefix: str, *, start_revision: int, since: Epoch, rng: Random
) -> AsyncGenerator[WatchBatch, BatchDelay | None]:
    """`Etcd.watch` over one connection; `since` is the store that `start_revision` is of."""
    backoff = Backoff(rng)
    attempt = _WatchStream(connection, prefix, start_revision, since)
    is_told = start_revision > 0
    while True:
        pause: BatchDelay | None = None
        try:
            await attempt.begin()
            backoff.reset()
            if not is_told:
                is_told = True
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
    """The current stream of one watch, and the revision at which the next one goes on."""

    def __init__(self, connection: Connection, prefix: str, next_revision: int, since: Epoch) -> None:
        self._connection = connection
        self._prefix = prefix
        self._next_revision = next_revision
        self._since = since
        self._tried = f"watch of {prefix} from revision {next_revision}"
        self._stream: Stream | None = None

    async def begin(self) -> None:
        """Open a stream and have etcd confirm the watch; raises as `Etcd.watch` does."""
        known = self._connection.identity.epoch()
        self._stream = self._connection.open_stream(
            self._connection.watch.Watch, tried=self._tried, wait_for_ready=True
        )
        request = rpc.WatchCreateRequest(
            start_revision=self._next_revision, progress_notify=True, **prefix_range(self._prefix)
        )
        await self._stream.send(rpc.WatchRequest(create_request=request))
        created = await self._stream.receive()
        if created.canceled:
            await self._count()  # raises `Refused` with the reason: for a watch etcd's only answer is: not permitted
        created = self._check(created)
        if not self._next_revision:
            self._next_revision = created.header.revision + 1
        elif created.header.revision < max(known.revision, self._next_revision - 1):
            await self._confirm_position()

    @property
    def position(self) -> int:
        """Return the last revision that was delivered, or the one before it began."""
        return self._next_revision - 1

    async def next_batch(self) -> WatchBatch | None:
        """Return etcd's next batch; None for a progress note."""
        assert self._stream is not None
        response = self._check(await self._stream.receive())
        if not response.events:
            self._next_revision = max(self._next_revision, response.header.revision + 1)
            return None
        events = tuple(watch_event(event) for event in response.events)
        revision = events[-1].kv.mod_revision
        self._next_revision = revision + 1
        self._connection.identity.observe(revision)
        return WatchBatch(events, revision)

    def end(self) -> None:
        """Close the current stream, if there is one."""
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _check(self, response: Any) -> Any:
        self._connection.identity.check_cluster(response.header.cluster_id, self._since)
        if response.canceled:
            raise from_watch_cancel(response, tried=self._tried, where=self._connection.where)
        return response

    async def _count(self) -> Any:
        probe = rpc.RangeRequest(**prefix_range(self._prefix), count_only=True)
        return await self._connection.call(self._connection.kv.Range, probe, tried=self._tried)

    async def _confirm_position(self) -> None:
        # The member that answers may merely lag behind. A linearizable read cannot: it tells a wipe from a lag.
        response = await self._count()
        if response.header.revision < self._next_revision - 1:
            message = (
                f"etcd at {self._connection.where} is at revision {response.header.revision}, "
                f"a watch of {self._prefix} would go on at {self._next_revision}: it was restored or wiped"
            )
            raise StoreReset(message)
