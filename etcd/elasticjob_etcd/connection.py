"""One gRPC channel to etcd with everything that calls over it share: stubs, deadline, identity, errors.

All of a client's calls and streams go through one `Connection`, in one event loop; no thread is started here.
A unary call is sent once (twice if etcd says that it judged it by outdated users, which applies nothing): an
unknown outcome is never repaired by repeating a write.
"""

import asyncio
from typing import Any

import grpc
from grpc import aio

from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.convert import rpc
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.identity import StoreIdentity
from elasticjob_etcd.protocol import Endpoint
from elasticjob_etcd.translate import is_stale_auth, translate

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
        self.identity = StoreIdentity()
        self._closed = False
        self._channel = open_channel(endpoint)
        self.kv = rpc.KVStub(self._channel)
        self.lease = rpc.LeaseStub(self._channel)
        self.watch = rpc.WatchStub(self._channel)

    async def call(self, method: Any, request: Any, *, tried: str) -> Any:
        """Make one unary call within the endpoint's `timeout_s`; its answer, or an `EtcdError`."""
        self.require_open()
        sent = self.identity.mark()
        try:
            response = await self._once_or_twice(method, request)
        except grpc.RpcError as error:
            raise translate(error, tried=tried, where=self.where) from error
        except asyncio.CancelledError:
            self.reraise_if_closed()
            raise
        self.identity.check(response.header.cluster_id, response.header.revision, sent)
        return response

    async def _once_or_twice(self, method: Any, request: Any) -> Any:
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

    def reraise_if_closed(self) -> None:
        """Raise `Unavailable` if a cancellation came from `close`, which looks as if the task had been cancelled."""
        task = asyncio.current_task()
        if not (task and task.cancelling()):
            self.require_open()

    def require_open(self) -> None:
        """Raise `Unavailable` once the client was closed."""
        if self._closed:
            message = f"the client of etcd at {self.where} is closed"
            raise Unavailable(message)

    async def close(self) -> None:
        """End every call and stream; idempotent."""
        self._closed = True
        await self._channel.close(None)
        await asyncio.sleep(_SETTLE_S)


class Stream:
    """One gRPC stream, used by one task at a time; whoever opened it cancels it, whatever happened."""

    def __init__(self, connection: Connection, call: Any, tried: str) -> None:
        self._connection = connection
        self._call = call
        self._tried = tried

    async def send(self, message: Any) -> None:
        """Send one message; `Unavailable` when the stream has ended."""
        try:
            await self._call.write(message)
        except asyncio.InvalidStateError:
            await self.receive()  # tells why the stream has ended
        except BaseException as error:
            self._explain(error)
            raise

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
            raise translate(error, tried=self._tried, where=self._connection.where) from error
        if isinstance(error, asyncio.CancelledError):
            self._connection.reraise_if_closed()

    def cancel(self) -> None:
        """End the stream; idempotent."""
        self._call.cancel()
