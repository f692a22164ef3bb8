"""Collective operations between the ranks of one round: a star over TCP with rank 0 as the hub.

Every operation is the same step: each rank sends its part to the hub, and the hub combines the parts in rank order. So
a sum has the same bits each time. The hub sends one result to all. All ranks must call the same operations in the same
order. Nothing is authenticated: the network of the job is trusted.

Invariant: a hub accepts only ranks of its own round and world size. The first message on a connection identifies the
caller, and a worker that outlived its round is refused.
"""

import errno
import json
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from errors import JoinError, PeerLostError
from model import Vector

_LENGTH = struct.Struct("!Q")
_HELLO_LIMIT = 4096
_HELLO_S = 2.0
_BIND_S = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a process in its round."""

    rank: int
    world_size: int
    round: int


class Group:
    """The ranks of one round, connected. Use as a context manager; leaving it closes the connections."""

    def __init__(self, me: Caller, peers: dict[int, socket.socket]) -> None:
        self.rank = me.rank
        self.world_size = me.world_size
        self.doing = "the start"
        """The current operation, for the message when a rank is lost."""
        self._peers = peers

    def all_reduce(self, vector: Vector) -> Vector:
        """Return the sum of all ranks' vectors, added strictly in rank order."""
        return np.frombuffer(self._combine(vector.tobytes(), _add_up))

    def all_gather(self, item: Any) -> list[Any]:
        """Return all ranks' items (JSON values), in rank order."""
        gathered: list[Any] = json.loads(self._combine(json.dumps(item).encode(), _as_json_list))
        return gathered

    def broadcast(self, payload: bytes, *, root: int) -> bytes:
        """Return the payload of rank `root` on every rank; the others' payloads are ignored."""
        return self._combine(payload if self.rank == root else b"", lambda parts: parts[root])

    def close(self) -> None:
        """Close all connections; a peer still waiting for this rank sees it as lost."""
        for peer in self._peers.values():
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _combine(self, part: bytes, combine: Callable[[list[bytes]], bytes]) -> bytes:
        # No deadlock: every other rank sends before it receives, the hub receives from all before it sends.
        if self.rank != 0:
            self._send(0, part)
            return self._receive(0)
        result = combine([part, *(self._receive(peer) for peer in range(1, self.world_size))])
        for peer in range(1, self.world_size):
            self._send(peer, result)
        return result

    def _send(self, peer: int, payload: bytes) -> None:
        try:
            _send_frame(self._peers[peer], payload)
        except OSError as error:
            raise self._lost(peer, error) from error

    def _receive(self, peer: int) -> bytes:
        try:
            return _receive_frame(self._peers[peer])
        except OSError as error:
            raise self._lost(peer, error) from error

    def _lost(self, peer: int, error: OSError) -> PeerLostError:
        reason = "it was silent for too long" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return PeerLostError(f"lost the connection to rank {peer} at {self.doing}: {reason}")


def connect(me: Caller, host: str, port: int, *, patience_s: float = 60.0) -> Group:
    """Connect to the other ranks at rank 0's address; `patience_s` bounds the connecting and every later silence.

    Raises:
        JoinError: they did not all come in time, the address cannot be used, or this rank was refused.
    """
    if me.world_size == 1:
        return Group(me, {})
    deadline = time.monotonic() + patience_s
    peers = _welcome_all(me, host, port, deadline) if me.rank == 0 else {0: _reach_hub(me, host, port, deadline)}
    for peer in peers.values():
        peer.settimeout(patience_s)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Group(me, peers)


def _welcome_all(me: Caller, host: str, port: int, deadline: float) -> dict[int, socket.socket]:
    peers: dict[int, socket.socket] = {}
    with closing(_listen(host, port, min(deadline, time.monotonic() + _BIND_S))) as server:
        while missing := [rank for rank in range(1, me.world_size) if rank not in peers]:
            server.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError as error:
                for peer in peers.values():
                    peer.close()
                who = ", ".join(map(str, missing))
                raise JoinError(f"waited at {host} port {port}, but these ranks never came: {who}") from error
            rank = _answer_hello(me, connection, taken=set(peers))
            if rank is not None:
                peers[rank] = connection
    return peers


def _listen(host: str, port: int, deadline: float) -> socket.socket:
    while True:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(address[:2], family=family, backlog=128)
        except OSError as error:
            # A hub of the round before may still be closing: only "in use" is worth another try.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise JoinError(f"cannot listen at {host} port {port}: {error.strerror or error}") from error
            time.sleep(0.02)


def _answer_hello(me: Caller, connection: socket.socket, *, taken: set[int]) -> int | None:
    """Read the caller's identity and answer; return its rank, or None if it was refused and the connection closed."""
    # A short timeout, since one silent stranger delays the others that wait to be accepted.
    connection.settimeout(_HELLO_S)
    try:
        caller = Caller(**json.loads(_receive_frame(connection, limit=_HELLO_LIMIT)))
        reason = _why_refused(me, caller, taken)
        _send_frame(connection, json.dumps({"refused": reason, "round": me.round}).encode())
    except (OSError, ValueError, TypeError):
        reason = "it did not say who it is"
    if reason is None:
        return caller.rank
    print(f"rank 0: refused a connection: {reason}", flush=True)
    connection.close()
    return None


def _why_refused(me: Caller, caller: Caller, taken: set[int]) -> str | None:
    if caller.round != me.round:
        return f"rank {caller.rank} is of round {caller.round}, this is round {me.round}"
    if caller.world_size != me.world_size:
        return f"rank {caller.rank} counts {caller.world_size} ranks, here there are {me.world_size}"
    if caller.rank not in range(1, me.world_size):
        return f"there is no rank {caller.rank} among {me.world_size} ranks"
    if caller.rank in taken:
        return f"rank {caller.rank} is here already"
    return None


def _reach_hub(me: Caller, host: str, port: int, deadline: float) -> socket.socket:
    reason = "no time was left"
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            connection = socket.create_connection((host, port), timeout=left_s)
        except OSError as error:
            reason = error.strerror or str(error)
            time.sleep(0.02)
            continue
        try:
            obstacle = _say_hello(me, connection)
        except JoinError:
            connection.close()
            raise
        if obstacle is None:
            return connection
        connection.close()
        reason = obstacle
        time.sleep(0.02)
    raise JoinError(f"cannot reach rank 0 at {host} port {port}: {reason}")


def _say_hello(me: Caller, connection: socket.socket) -> str | None:
    """Introduce this rank; return None when welcome, else the reason for another try; raise JoinError when refused."""
    # Before the hub listens, a connection to a port of this host may get that same port as its own, and connect to
    # itself. It must be closed at once, because it keeps the hub from listening.
    if connection.getsockname() == connection.getpeername():
        return "nobody listens there yet"
    try:
        _send_frame(connection, json.dumps(asdict(me)).encode())
        answer = json.loads(_receive_frame(connection, limit=_HELLO_LIMIT))
        refused, their_round = answer["refused"], answer["round"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        return f"no answer from rank 0 ({error})"
    if refused is None:
        return None
    if their_round < me.round:
        return "the hub of an earlier round is still there"
    raise JoinError(f"refused by rank 0 at {connection.getpeername()[0]}: {refused}")


def _send_frame(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(payload)) + payload)


def _receive_frame(connection: socket.socket, *, limit: int | None = None) -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if limit is not None and length > limit:
        raise ValueError(f"a first message of {length} bytes")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("it closed the connection")
        view = view[received:]
    return bytes(buffer)


def _add_up(parts: list[bytes]) -> bytes:
    total = np.frombuffer(parts[0]).copy()
    for part in parts[1:]:
        total += np.frombuffer(part)
    return total.tobytes()


def _as_json_list(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"
