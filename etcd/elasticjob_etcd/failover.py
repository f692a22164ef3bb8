"""Failover to another etcd member when the current one does not answer, long before gRPC gives the connection up.

gRPC takes up to 13 s to notice, a lease lasts 6. So an overdue request, such as the lease refresh every 2 s, starts a
failover; it needs no extra requests before. The other members are dialed one at a time with a linearizable read.
The first connection that answers is used; the current one is preferred. A cluster with a single member is dialed again
once, after its first stall.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

from elasticjob_etcd.backoff import Backoff, Random
from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.silent_grpc import aio, grpc

SILENCE_TIMEOUT_S = 1.0
"""A small request without an answer for so long is overdue: a healthy etcd takes milliseconds."""

FIRST_TRY_S = 0.5
"""For one more connection to be established and answered: a load balancer may lead it to the silent member again."""

TIMEOUT_FACTOR = 1.5
"""Each next try may take so many times as long as the one before, up to the time limit of a call."""

MAX_TRY_S = 10.0
"""For a failover: by then gRPC has given the connection up, and dials by itself."""

_LATE_S = 0.25
"""If a timer is so late, the event loop is busy itself: the answer may have arrived long ago."""

log = logging.getLogger(__name__)


class FailoverWatchdog:
    """Watches the small requests of one connection, in one event loop. Close it before the connection."""

    def __init__(self, connection: Connection, rng: Random) -> None:
        self._connection = connection
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()
        self._search: asyncio.Task[None] | None = None
        self._single_member: bool | None = None
        """Whether the cluster has no other member; None: not asked yet, or not answered."""

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Guard a small request; only its answer ends a failover, not its cancellation."""
        timer = _Deadline(self._start_search)
        try:
            yield
        finally:
            timer.cancel()
        self._answered()

    async def close(self) -> None:
        """End a failover; idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_search(self) -> None:
        if self._search is None and not self._single_member and self._connection.has_answered:
            self._search = self._spawn(self._fail_over(self._connection.channel))
            self._search.add_done_callback(self._on_search_done)

    def _answered(self) -> None:
        if self._search is not None:
            self._search.cancel()
            self._search = None
            self._spawn(self._count_members())

    def _on_search_done(self, search: asyncio.Task[None]) -> None:
        if self._search is search:
            self._search = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="etcd failover")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _fail_over(self, silent: aio.Channel) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_TRY_S):
                await self._find(silent)
                await self._count_members()

    async def _find(self, silent: aio.Channel) -> None:
        backoff, within_s, number = Backoff(self._rng), FIRST_TRY_S, 1
        while not await self._try(silent, number, within_s):
            within_s = min(within_s * TIMEOUT_FACTOR, self._connection.timeout_s)
            number += 1
            await backoff.pause()

    async def _try(self, silent: aio.Channel, number: int, within_s: float) -> bool:
        """Return whether the failover is over."""
        try:
            replaced = await self._connection.replace(silent, attempt=number, within_s=within_s)
        except EtcdError:
            return False
        if replaced:
            where = self._connection.where
            log.warning(
                "etcd at %s: no answer for more than %g s; switched to another connection", where, SILENCE_TIMEOUT_S
            )
        return True

    async def _count_members(self) -> None:
        if self._single_member is not None:
            return
        stub = rpc.ClusterStub(self._connection.channel)
        with contextlib.suppress(grpc.RpcError):  # not every user may list members, and the member may be lost again
            answer = await stub.MemberList(rpc.MemberListRequest(), timeout=self._connection.timeout_s)
            self._single_member = len(answer.members) == 1


class _Deadline:
    """A timer that fires once after `SILENCE_TIMEOUT_S`, unless the loop was too busy to receive an answer."""

    def __init__(self, on_overdue: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_overdue = on_overdue
        self._wait()

    def _wait(self) -> None:
        self._handle = self._loop.call_later(SILENCE_TIMEOUT_S, self._fire)

    def _fire(self) -> None:
        if self._loop.time() - self._handle.when() > _LATE_S:
            self._wait()
        else:
            self._on_overdue()

    def cancel(self) -> None:
        """Stop the timer."""
        self._handle.cancel()
