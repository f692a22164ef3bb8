"""The driver's server: it sends the function to nodes that join, receives the ranks' results, and reports the end.

It runs in one event loop. Results are written to files in chunks as they arrive, and read when all are there. So a call
holds only its results in memory. A result of a round that did not last is ignored.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import pickle
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elasticjob.errors import RankFailure
from elasticjob.multinode import protocol
from elasticjob.multinode.authentication import LINE_BYTES, Authenticator
from elasticjob.multinode.protocol import Hello
from elasticjob_agent.net.servers import close_server
from elasticjob_agent.supervisor import function_worker as ends

LOOPBACK = "127.0.0.1"
"""The address of the server for a call of one node."""
_KEEPALIVE_S = 10.0
"""Seconds for a new connection to identify itself."""
_SILENCE_S = 60.0
"""Seconds for the next chunk of a result."""
_PHRASES = {
    ends.NOT_STARTED: "the function did not start: ",
    ends.UNPICKLABLE: "the result cannot be sent: ",
    ends.EXITED: "the function exited with a code: ",
    ends.INTERRUPTED: "the function was interrupted: ",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RankResult:
    """The result of one rank, in a file."""

    hello: Hello
    file: Path


class ResultServer:
    """The server of a call; `open` it, then `close` it."""

    def __init__(self, folder: Path, key: str, spec: protocol.CallSpec, payload: bytes) -> None:
        self._folder = folder
        self._key = key
        self._spec = spec
        self._payload = payload
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: dict[tuple[int, int], _RankResult] = {}
        self._is_over = False
        self._closing = asyncio.Event()
        self._numbers = itertools.count()
        """Numbers of result files: a repeated result must not overwrite the earlier file, which is deleted later."""

    async def open(self, *, everywhere: bool) -> int:
        """Listen on all addresses, or only on the loopback interface; return the port."""
        sock = _everywhere() if everywhere else socket.create_server((LOOPBACK, 0))
        self._server = await asyncio.start_server(self._serve, limit=protocol.LINE_LIMIT, sock=sock)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def finish_call(self) -> None:
        """Let `close` report the end of the call to the nodes."""
        # Without that message, they would take the closed connection for a lost driver.
        self._is_over = True

    async def close(self) -> None:
        """Close all connections."""
        self._closing.set()
        if self._server is not None:
            await close_server(self._server)
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=_KEEPALIVE_S)
            for task in slow:
                task.cancel()

    @property
    def last_round(self) -> int:
        """The newest round with any result; 0 without results."""
        return max((of for of, _ in self._results), default=0)

    def results(self, round_: int) -> dict[int, Any] | None:
        """Return rank → value of this round; None if a rank's value is missing."""
        arrived = {rank: each for (of, rank), each in self._results.items() if of == round_}
        complete = arrived and set(arrived) == set(range(next(iter(arrived.values())).hello.world_size))
        if not complete or any(each.hello.outcome != ends.VALUE for each in arrived.values()):
            return None
        return {rank: pickle.loads(arrived[rank].file.read_bytes()) for rank in sorted(arrived)}  # noqa: S301  # sealed, see protocol

    def failures(self) -> Mapping[int, RankFailure]:
        """Return rank → failure, of the newest round with a failure."""
        failed = {place: each for place, each in self._results.items() if each.hello.outcome != ends.VALUE}
        last = max((of for of, _ in failed), default=0)
        return {rank: _failure(each) for (of, rank), each in sorted(failed.items()) if of == last}

    # --- one connection --------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_KEEPALIVE_S):
                hello, challenge = await self._authenticate(reader, writer)
            if hello.kind == protocol.JOIN:
                await self._serve_node(hello, writer)
            else:
                await self._receive_result(hello, challenge, reader)
                await self._send_seal(protocol.ACK, hello, writer)
        except (OSError, TimeoutError, ValueError, EOFError, TypeError) as error:
            peer = writer.get_extra_info("peername")
            log.warning("a connection from %s failed: %s", peer and peer[0], error or type(error).__name__)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Hello, bytes]:
        """Return the hello of a connection and the challenge that it answered; use no line without its seal."""
        challenge = secrets.token_hex(16).encode() + b"\n"
        writer.write(challenge)
        line = await reader.readline()
        seal = Authenticator(self._key, protocol.HELLO, challenge)
        seal.update(line)
        seal.require(await reader.readexactly(LINE_BYTES))
        return Hello(**protocol.fields_of(line)), challenge

    async def _send_seal(self, purpose: bytes, hello: Hello, writer: asyncio.StreamWriter) -> None:
        writer.write(Authenticator(self._key, purpose, hello.nonce.encode()).line)
        await writer.drain()

    async def _serve_node(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        """Send the call to a node, and keep the connection until the call is over."""
        log.info("node %s joins", hello.host)
        spec = protocol.line_of(self._spec)
        writer.write(spec)
        seal = Authenticator(self._key, protocol.CALL, hello.nonce.encode(), spec)
        writer.write(seal.line)
        for begin in range(0, len(self._payload), protocol.CHUNK_BYTES):  # a copy for each node would be too much
            piece = self._payload[begin : begin + protocol.CHUNK_BYTES]
            seal.update(piece)
            writer.write(piece)
            await writer.drain()
        writer.write(seal.line)
        await writer.drain()
        await self._closing.wait()
        if self._is_over:
            await self._send_seal(protocol.DONE, hello, writer)

    async def _receive_result(self, hello: Hello, challenge: bytes, reader: asyncio.StreamReader) -> None:
        file = self._folder / f"{hello.round}.{hello.rank}.{next(self._numbers)}"
        try:
            await self._receive(hello, Authenticator(self._key, protocol.RESULT_HELLO, challenge), file, reader)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        earlier = self._results.pop((hello.round, hello.rank), None)
        self._results[hello.round, hello.rank] = _RankResult(hello, file)
        if earlier is not None:
            earlier.file.unlink()

    async def _receive(self, hello: Hello, seal: Authenticator, file: Path, reader: asyncio.StreamReader) -> None:
        """Write a whole result to a file; raise AuthenticationError if its seal is wrong."""
        left = hello.size
        with file.open("wb") as whole:
            while left:
                async with asyncio.timeout(_SILENCE_S):
                    piece = await reader.read(min(left, protocol.CHUNK_BYTES))
                if not piece:
                    raise EOFError(
                        f"rank {hello.rank} closed its connection with {left:,} of {hello.size:,} bytes left"
                    )
                seal.update(piece)
                whole.write(piece)
                left -= len(piece)
        async with asyncio.timeout(_SILENCE_S):
            seal.require(await reader.readexactly(LINE_BYTES))


def _everywhere() -> socket.socket:
    """Return a socket that listens on all addresses, of IPv4 and IPv6 if possible."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _failure(delivery: _RankResult) -> RankFailure:
    fields = json.loads(delivery.file.read_bytes())
    phrase = _PHRASES.get(delivery.hello.outcome, "")
    error = f"{fields['type']}: {fields['text']}" if fields["text"] else fields["type"]
    return RankFailure(
        rank=delivery.hello.rank, host=delivery.hello.host, error=phrase + error, traceback=fields["traceback"]
    )
