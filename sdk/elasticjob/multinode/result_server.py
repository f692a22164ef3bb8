"""The asker's end of a call: hands the function to nodes that join, takes the ranks' results, reports the end.

Lives in one event loop. Results go to files as they come, a chunk at a time, and are read when all are there, so a call
holds in memory what it returns and no more. A result of a round that did not last counts for nothing.
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
"""Where a call of one node has its desk."""
_KEEPALIVE_S = 10.0
"""For a connection to say who it is."""
_SILENCE_S = 60.0
"""For the next piece of a result."""
_PHRASES = {
    ends.NOT_STARTED: "the function never began: ",
    ends.UNPICKLABLE: "the result cannot be sent: ",
    ends.EXITED: "it left with an exit code: ",
    ends.INTERRUPTED: "it was interrupted: ",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RankResult:
    """What came from one rank."""

    hello: Hello
    file: Path


class ResultServer:
    """See the module; `open`, then `close`."""

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
        """Of deliveries: one that comes again must not be written over the earlier one, which is then deleted."""

    async def open(self, *, everywhere: bool) -> int:
        """Listen on all addresses, or on the loopback interface alone; the port."""
        sock = _everywhere() if everywhere else socket.create_server((LOOPBACK, 0))
        self._server = await asyncio.start_server(self._serve, limit=protocol.LINE_LIMIT, sock=sock)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def finish_call(self) -> None:
        """The call has its end: `close` tells the guests. They take a connection that just ends for a lost asker."""
        self._is_over = True

    async def close(self) -> None:
        """End all connections."""
        self._closing.set()
        if self._server is not None:
            await close_server(self._server)
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=_KEEPALIVE_S)
            for task in slow:
                task.cancel()

    @property
    def last_round(self) -> int:
        """The last one of which anything came; 0: none."""
        return max((of for of, _ in self._results), default=0)

    def results(self, round_: int) -> dict[int, Any] | None:
        """Rank → value of this round, or None if not all of its ranks have delivered one."""
        came = {rank: each for (of, rank), each in self._results.items() if of == round_}
        whole = came and set(came) == set(range(next(iter(came.values())).hello.world_size))
        if not whole or any(each.hello.outcome != ends.VALUE for each in came.values()):
            return None
        return {rank: pickle.loads(came[rank].file.read_bytes()) for rank in sorted(came)}  # noqa: S301  # see wire

    def failures(self) -> Mapping[int, RankFailure]:
        """Rank → how it failed, of the last round in which one did."""
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
                await self._read_word(protocol.ACK, hello, writer)
        except (OSError, TimeoutError, ValueError, EOFError, TypeError) as error:
            peer = writer.get_extra_info("peername")
            log.warning("a connection from %s came to nothing: %s", peer and peer[0], error or type(error).__name__)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Hello, bytes]:
        """Who it is, and the challenge that it has answered. Nothing of a line without its seal is looked at."""
        challenge = secrets.token_hex(16).encode() + b"\n"
        writer.write(challenge)
        line = await reader.readline()
        seal = Authenticator(self._key, protocol.HELLO, challenge)
        seal.update(line)
        seal.require(await reader.readexactly(LINE_BYTES))
        return Hello(**protocol.fields_of(line)), challenge

    async def _read_word(self, word: bytes, hello: Hello, writer: asyncio.StreamWriter) -> None:
        writer.write(Authenticator(self._key, word, hello.nonce.encode()).line)
        await writer.drain()

    async def _serve_node(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        """A guest: it has the connection until it goes, or all is over."""
        log.info("node %s joins", hello.host)
        terms = protocol.line_of(self._spec)
        writer.write(terms)
        seal = Authenticator(self._key, protocol.CALL, hello.nonce.encode(), terms)
        writer.write(seal.line)
        for begin in range(0, len(self._payload), protocol.CHUNK_BYTES):  # one copy a guest would be too many
            piece = self._payload[begin : begin + protocol.CHUNK_BYTES]
            seal.update(piece)
            writer.write(piece)
            await writer.drain()
        writer.write(seal.line)
        await writer.drain()
        await self._closing.wait()
        if self._is_over:
            await self._read_word(protocol.DONE, hello, writer)

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
        """The whole result into a file; raises BadSealError if that is not what the rank has sent."""
        left = hello.size
        with file.open("wb") as whole:
            while left:
                async with asyncio.timeout(_SILENCE_S):
                    piece = await reader.read(min(left, protocol.CHUNK_BYTES))
                if not piece:
                    raise EOFError(f"rank {hello.rank} was cut off with {left:,} of {hello.size:,} bytes missing")
                seal.update(piece)
                whole.write(piece)
                left -= len(piece)
        async with asyncio.timeout(_SILENCE_S):
            seal.require(await reader.readexactly(LINE_BYTES))


def _everywhere() -> socket.socket:
    """On all addresses, both families at one port where there is IPv6."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _failure(delivery: _RankResult) -> RankFailure:
    said = json.loads(delivery.file.read_bytes())
    phrase = _PHRASES.get(delivery.hello.outcome, "")
    error = f"{said['type']}: {said['text']}" if said["text"] else said["type"]
    return RankFailure(
        rank=delivery.hello.rank, host=delivery.hello.host, error=phrase + error, traceback=said["traceback"]
    )
