"""A web server that is not etcd: it serves HTTP/2 without TLS, as gRPC uses it, and answers 404 to every request.

A proxy outside the cluster answers so if a service's address does not yet lead into the cluster. Frames are written by
hand (RFC 9113): a test needs only three of them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from elasticjob_agent.net.servers import close_server

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK, _END_STREAM_AND_HEADERS = 1, 5
_STATUS_404 = bytes([0x80 | 13])
"""HPACK's static table has it as entry 13."""


class NotEtcd:
    """A server at `port`; `connections` counts the connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            await reader.readexactly(len(_PREFACE))
            writer.write(_frame(_SETTINGS))
            while True:
                head = await reader.readexactly(9)
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                if kind == _HEADERS:
                    writer.write(_frame(_HEADERS, _END_STREAM_AND_HEADERS, stream, _STATUS_404))
                elif kind in {_SETTINGS, _PING} and not flags & _ACK:
                    writer.write(_frame(kind, _ACK, payload=payload if kind == _PING else b""))
        writer.close()


def _frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


@contextlib.asynccontextmanager
async def not_etcd() -> AsyncIterator[NotEtcd]:
    """A server that listens until the end; open connections remain then."""
    found = NotEtcd()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        await close_server(server)
