"""One gRPC channel to etcd with everything that calls over it share: stubs, deadline, identity, errors.

All of a client's calls and streams go through one `Connection`, in one event loop; no thread is started here.
A unary call is sent at most once: an unknown outcome is never repaired by repeating a write. There is one exception.
After etcd's error *auth: revision in header is old*, which applies nothing, the call is sent again.
"""

import asyncio
from typing import Any

import grpc
from grpc import aio

from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.errors import EtcdError, Unavailable
from elasticjob_etcd.grpc_errors import from_rpc_error, is_stale_auth, is_wrong_address
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.store_epoch import StoreEpochTracker

# A member cut off from its cluster would keep its streams open and silent; with this it ends them.
_STREAM_METADATA = (("hasleader", "true"),)

# gRPC's thread may still have something to tell of a call that `close` ended; a loop that is closed by then logs it
# as an error, in whichever loop comes next. Nothing can be awaited for it.
_SETTLE_S = 0.005


class Connection:
    """A channel, etcd3's stubs on it, and what is known of the store at its end."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.timeout_s = endpoint.timeout_s
        self.where = ",".join(endpoint.targets)
        self.identity = StoreEpochTracker()
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
        """Made when asked for: only an administrator needs its sixteen methods, and every node has a connection."""
        return rpc.AuthStub(self.channel)

    async def redial(self) -> None:
        """Go on over a new channel, with the certificate files as they are now; raises as a call does, then as before.

        Calls that are under way end on the old channel; its streams then raise `Unavailable`, and whoever opened
        them goes on where they ended.
        """
        self.require_open()
        channel = await self._dial(within_s=self.timeout_s)
        self._replace(channel, grace_s=self.timeout_s)

    async def replace(self, silent_channel: aio.Channel, *, attempt: int, within_s: float) -> bool:
        """Go on over a new channel at once if it answers; raises as a call does, then as before.

        It begins with another address than the `attempt` before. Calls under way on the silent one end as unknown.
        False if somebody else has replaced it meanwhile.
        """
        channel = await self._dial(attempt=attempt, within_s=within_s, wait_for_ready=True)
        if self.channel is not silent_channel:
            await channel.close(None)
            return False
        self._replace(channel, grace_s=None)
        return True

    @property
    def has_answered(self) -> bool:
        """Something has answered before: not a cold start, which may take its time."""
        return self._answered

    def _replace(self, channel: aio.Channel, *, grace_s: float | None) -> None:
        old = self.channel
        self._use(channel)
        task = asyncio.create_task(old.close(grace_s), name="end of the channel before")
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _dial(self, *, attempt: int = 0, within_s: float, wait_for_ready: bool = False) -> aio.Channel:
        """A new channel that answers; raises as a call does, and none is left open then."""
        channel = open_channel(self._endpoint, attempt=attempt)
        try:
            await self._probe(channel, within_s=within_s, wait_for_ready=wait_for_ready)
            self.require_open()
        except BaseException:
            await channel.close(None)
            raise
        return channel

    async def _probe(self, channel: aio.Channel, *, within_s: float, wait_for_ready: bool) -> None:
        """Any answer will do, a refusal of this user too: the certificates of both sides are good then."""
        question = rpc.RangeRequest(key=b"health")
        try:
            await rpc.KVStub(channel).Range(question, timeout=within_s, wait_for_ready=wait_for_ready)
        except grpc.RpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
                raise from_rpc_error(error, tried="dialing again", where=self.where) from error

    async def call(self, method: Any, request: Any, *, tried: str) -> Any:
        """Make one unary call within the endpoint's `timeout_s`; its answer, or an `EtcdError`."""
        self.require_open()
        sent, channel = self.identity.epoch(), self.channel
        try:
            response = await self._call_retrying_auth(method, request)
        except grpc.RpcError as error:
            raise self.explain(error, tried, channel) from error
        except asyncio.CancelledError:
            self.reraise_if_ended(channel)
            raise
        self._answered = True
        self.identity.check(response.header.cluster_id, response.header.revision, sent)
        return response

    async def _call_retrying_auth(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self.timeout_s)
        except grpc.RpcError as error:
            if not is_stale_auth(error.details()):
                raise
        return await method(request, timeout=self.timeout_s)

    def open_stream(self, method: Any, *, tried: str, wait_for_ready: bool) -> "Stream":
        """Begin a stream of both directions; `wait_for_ready` leaves waiting for etcd to the channel."""
        self.require_open()
        return Stream(self, method(wait_for_ready=wait_for_ready, metadata=_STREAM_METADATA), tried)

    def explain(self, error: grpc.RpcError, tried: str, channel: aio.Channel) -> EtcdError:
        """Our error for one of gRPC's on `channel`.

        A stranger at the other end would stay there: before a cluster knows the way to a service, its address may
        lead anywhere. A learner serves nobody. So that connection is given up, and the next call dials.
        """
        if is_wrong_address(error.details()) and channel is self.channel and not self._closed:
            self._attempt += 1
            self._replace(open_channel(self._endpoint, attempt=self._attempt), grace_s=self.timeout_s)
        return from_rpc_error(error, tried=tried, where=self.where, known=self._answered)

    def reraise_if_ended(self, channel: aio.Channel) -> None:
        """Raise `Unavailable` if a cancellation came from a channel's end, which looks like that of the task."""
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
    """One gRPC stream, used by one task at a time; whoever opened it cancels it, whatever happened."""

    def __init__(self, connection: Connection, call: Any, tried: str) -> None:
        self._connection = connection
        self._channel = connection.channel
        self._call = call
        self._tried = tried
        self._has_begun = False

    async def send(self, message: Any) -> None:
        """Send one message; `Unavailable` when the stream has ended."""
        try:
            await self._write(message)
        except asyncio.InvalidStateError:
            await self.receive()  # tells why the stream has ended
        except BaseException as error:
            self._explain(error)
            raise

    async def _write(self, message: Any) -> None:
        if self._has_begun:
            await self._call.write(message)
            return
        # By itself the first waits for ever if the channel is closed before the stream has begun.
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
        """The next message, whenever it comes; `Unavailable` when the stream has ended."""
        try:
            response = await self._call.read()
        except BaseException as error:
            self._explain(error)
            raise
        if response is aio.EOF:  # type: ignore[attr-defined]  # the stubs have forgotten it
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
