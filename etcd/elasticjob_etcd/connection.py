"""One gRPC channel to etcd with everything that its calls share: stubs, deadline, store epoch, errors.

All of a client's calls and streams go through one `Connection`, in one event loop; it starts no thread.
A unary call is sent at most once: a write with an unknown outcome is never repeated. There is one exception.
After etcd's error *auth: revision in header is old*, which applies nothing, the call is sent again.
"""

import asyncio
from typing import Any

from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.errors import EtcdError, Unavailable
from elasticjob_etcd.grpc_errors import from_rpc_error, is_stale_auth, is_wrong_address
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.silent_grpc import aio, grpc
from elasticjob_etcd.store_epoch import StoreEpochTracker

# A member cut off from its cluster would keep its streams open without events; with this it ends them.
_STREAM_METADATA = (("hasleader", "true"),)

# gRPC's thread may still deliver an event of a call that `close` ended. If the loop is closed by then, gRPC logs an
# error in the next loop of the process. There is nothing to await, so `close` sleeps.
_SETTLE_S = 0.005


class Connection:
    """A channel, etcd3's stubs on it, and the known epoch of the store."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.timeout_s = endpoint.timeout_s
        self.where = ",".join(endpoint.targets)
        self.store_epoch = StoreEpochTracker()
        self._endpoint = endpoint
        self._closed = False
        self._answered = False
        self._attempt = 0
        self._retired: set[asyncio.Task[None]] = set()
        self._use(open_channel(endpoint))

    def _use(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.kv = rpc.KVStub(channel)
        self.lease = rpc.LeaseStub(channel)
        self.watch = rpc.WatchStub(channel)

    @property
    def auth(self) -> Any:
        """Return the stub for users and roles. It is made on use: only an administrator needs its sixteen methods."""
        return rpc.AuthStub(self.channel)

    async def redial(self) -> None:
        """Continue over a new channel, with the current certificates. On error, raise as a call does, without a change.

        Calls that are under way end on the old channel. Its streams then raise `Unavailable`, and their owners continue
        from the last message.
        """
        self.require_open()
        channel = await self._dial(within_s=self.timeout_s)
        self._replace(channel, grace_s=self.timeout_s)

    async def replace(self, silent_channel: aio.Channel, *, attempt: int, within_s: float) -> bool:
        """Continue over a new channel at once if it answers. On error, raise as a call does, without a change.

        It begins with another address than the `attempt` before. Calls under way on the silent channel end as unknown.
        Return False if another task has replaced it meanwhile.
        """
        channel = await self._dial(attempt=attempt, within_s=within_s, wait_for_ready=True)
        if self.channel is not silent_channel:
            await channel.close(None)
            return False
        self._replace(channel, grace_s=None)
        return True

    @property
    def has_answered(self) -> bool:
        """Whether etcd has answered before. A cold start may take longer."""
        return self._answered

    def _replace(self, channel: aio.Channel, *, grace_s: float | None) -> None:
        old = self.channel
        self._use(channel)
        task = asyncio.create_task(old.close(grace_s), name="close of the previous channel")
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _dial(self, *, attempt: int = 0, within_s: float, wait_for_ready: bool = False) -> aio.Channel:
        """Return a new channel that answers; raise as a call does, and leave none open then."""
        channel = open_channel(self._endpoint, attempt=attempt)
        try:
            await self._probe(channel, within_s=within_s, wait_for_ready=wait_for_ready)
            self.require_open()
        except BaseException:
            await channel.close(None)
            raise
        return channel

    async def _probe(self, channel: aio.Channel, *, within_s: float, wait_for_ready: bool) -> None:
        """Read a key. Any answer will do, also a rejection of this user: it proves the certificates of both sides."""
        probe = rpc.RangeRequest(key=b"health")
        try:
            await rpc.KVStub(channel).Range(probe, timeout=within_s, wait_for_ready=wait_for_ready)
        except grpc.RpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
                raise from_rpc_error(error, tried="dialing again", where=self.where) from error

    async def call(self, method: Any, request: Any, *, tried: str) -> Any:
        """Make one unary call within the endpoint's `timeout_s`; return its answer, or raise an `EtcdError`."""
        self.require_open()
        sent, channel = self.store_epoch.epoch(), self.channel
        try:
            response = await self._call_retrying_auth(method, request)
        except grpc.RpcError as error:
            raise self.explain(error, tried, channel) from error
        except asyncio.CancelledError:
            self.reraise_if_ended(channel)
            raise
        self._answered = True
        self.store_epoch.check(response.header.cluster_id, response.header.revision, sent)
        return response

    async def _call_retrying_auth(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            if not is_stale_auth(error.details()):
                raise
        return await method(request, timeout=self.timeout_s)

    def open_stream(self, method: Any, *, tried: str, wait_for_ready: bool) -> "Stream":
        """Open a bidirectional stream; with `wait_for_ready` the channel waits for etcd."""
        self.require_open()
        return Stream(self, method(wait_for_ready=wait_for_ready, metadata=_STREAM_METADATA), tried)

    def explain(self, error: grpc.RpcError, tried: str, channel: aio.Channel) -> EtcdError:
        """Return our error for one of gRPC's on `channel`.

        Before a cluster knows the route of a service, its address may lead to another server. The connection to that
        server would stay. A learner serves no requests. In both cases the connection is closed, and the next call
        dials.
        """
        if is_wrong_address(error.details()) and channel is self.channel and not self._closed:
            self._attempt += 1
            self._replace(open_channel(self._endpoint, attempt=self._attempt), grace_s=self.timeout_s)
        return from_rpc_error(error, tried=tried, where=self.where, known=self._answered)

    def reraise_if_ended(self, channel: aio.Channel) -> None:
        """Raise `Unavailable` if a cancellation came from the end of a channel, and not from that of the task."""
        task = asyncio.current_task()
        if task and task.cancelling():
            return
        self.require_open()
        if channel is not self.channel:
            raise Unavailable(f"etcd at {self.where} was dialed again")

    def require_open(self) -> None:
        """Raise `Unavailable` once the client was closed."""
        if self._closed:
            message = f"the client of etcd at {self.where} is closed"
            raise Unavailable(message)

    async def close(self) -> None:
        """End every call and stream; idempotent."""
        self._closed = True
        for task in self._retired:
            task.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
        await self.channel.close(None)
        await asyncio.sleep(_SETTLE_S)


class Stream:
    """One gRPC stream, used by one task at a time. Its owner cancels it in any case."""

    def __init__(self, connection: Connection, call: Any, tried: str) -> None:
        self._connection = connection
        self._channel = connection.channel
        self._call = call
        self._tried = tried
        self._has_begun = False

    async def send(self, message: Any) -> None:
        """Send one message; raise `Unavailable` if the stream has ended."""
        try:
            await self._write(message)
        except asyncio.InvalidStateError:
            await self.receive()  # raises the reason for the end of the stream
        except BaseException as error:
            self._explain(error)
            raise

    async def _write(self, message: Any) -> None:
        if self._has_begun:
            await self._call.write(message)
            return
        # gRPC's first write waits for ever if the channel is closed before the stream has begun.
        write = asyncio.create_task(self._call.write(message))
        self._call.add_done_callback(lambda _call: write.cancel())
        try:
            await asyncio.wait({write})
            if write.cancelled():
                raise asyncio.InvalidStateError
            write.result()
            self._has_begun = True
        finally:
            write.cancel()

    async def receive(self) -> Any:
        """Wait for the next message and return it; raise `Unavailable` if the stream has ended."""
        try:
            response = await self._call.read()
        except BaseException as error:
            self._explain(error)
            raise
        if response is aio.EOF:  # type: ignore[attr-defined]  # missing in the stubs
            message = f"etcd at {self._connection.where}: {self._tried}: it ended the stream"
            raise Unavailable(message)
        return response

    def _explain(self, error: BaseException) -> None:
        if isinstance(error, grpc.RpcError):
            raise self._connection.explain(error, self._tried, self._channel) from error
        if isinstance(error, asyncio.CancelledError):
            self._connection.reraise_if_ended(self._channel)

    def cancel(self) -> None:
        """End the stream; idempotent."""
        self._call.cancel()
