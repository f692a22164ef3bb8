"""The listener of one agent: answers a hello of its own job with its own, and reports the end of such a link.

It is opened after the fork server was exec'd, and is close-on-exec. So no worker ever holds it or one of its links, and
they end with this process. Any host on the network may connect. A connection is closed without an answer if it sends
nothing in time, or a line that is not signed with the job's key. Few connections are open at once. Nothing here raises
or blocks.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from elasticjob_agent.net.servers import close_server
from elasticjob_agent.rendezvous.leader import dial
from elasticjob_agent.rendezvous.protocol import link_handshake
from elasticjob_agent.rendezvous.protocol.link_handshake import MAX_BYTES, Address, Authenticator, Hello, Peer
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member

HANDSHAKE_TIMEOUT_S = 2.0
"""Seconds for the hello of a peer; an agent's takes some milliseconds, and the dialing side waits no longer either."""
MAX_UNAUTHENTICATED = 32
"""The most connections without a hello; one more closes the oldest, because an agent's hello is quick."""
MAX_LINKS = 64
"""The most links. There is one leader; a few agents may have led within a short time."""

log = logging.getLogger(__name__)


class LinkListener:
    """Listens on `host`; without a port (`address` None) there are no links, and the lease alone decides."""

    def __init__(self, host: str, *, random_hex: Callable[[], str], on_end: Callable[[Hello], None]) -> None:
        """`on_end` gets each link that had its hello; `random_hex` returns eight random hex digits."""
        self._host = host
        self._random_hex = random_hex
        self._on_end = on_end
        self._me: tuple[str, Member] | None = None
        self.key: bytes | None = None
        """The job's key; without it every connection is closed."""
        self._server: asyncio.Server | None = None
        self._unauthenticated: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.address: Address | None = None

    async def open(self) -> None:
        """Listen; if the address is not this host's, log that and have no link."""
        try:
            socket_ = _bind(self._host)
            self._server = await asyncio.start_server(self._accept, sock=socket_, limit=MAX_BYTES, start_serving=False)
            await self._server.start_serving()  # `_server` is set: `close` closes it if this is cancelled
        except OSError as error:
            log.warning("no link: cannot listen on %s (%s); a lost node is found by its lease only", self._host, error)
            return
        self.address = Address(self._host, socket_.getsockname()[1])

    def set_identity(self, job: str, member: Member) -> None:
        """Answer as this session from now on; links to another session of this process have ended."""
        if self._me is not None and self._me != (job, member):
            for writer in self._links.values():
                writer.transport.abort()
        self._me = job, member

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._me is None or self.key is None or len(self._links) >= MAX_LINKS:
            writer.transport.abort()
            return
        if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
            oldest = next(iter(self._unauthenticated))
            self._unauthenticated.pop(oldest).transport.abort()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="link")
        self._unauthenticated[task] = writer
        task.add_done_callback(self._discard)

    def _discard(self, task: "asyncio.Task[None]") -> None:
        self._unauthenticated.pop(task, None)
        self._links.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            me, key = self._me, self.key
            peer = None if key is None else await self._handshake(reader, writer, key)
            task = asyncio.current_task()
            if peer is None or key is None or me is None or me != self._me or task not in self._unauthenticated:
                return
            self._links[task] = self._unauthenticated.pop(task)
            answer = Hello(*me, self._nonce())
            writer.write(link_handshake.encode(answer, Authenticator(key, Peer.ANSWERS, peer.nonce)))
            await dial.wait_ended(reader)
            if self._me == me:
                self._on_end(peer)
        finally:
            writer.transport.abort()

    def _nonce(self) -> str:
        return self._random_hex() + self._random_hex()

    async def _handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> Hello | None:
        challenge = self._nonce()
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                writer.write(link_handshake.encode_challenge(challenge))
                return link_handshake.decode(await reader.readuntil(b"\n"), Authenticator(key, Peer.DIALS, challenge))
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, RecordError) as error:
            log.debug("dropped a connection to the link: %r", error)
            return None

    async def close(self) -> None:
        """Stop listening and end all links; idempotent."""
        self._me = None
        server, self._server = self._server, None
        if server is not None:
            await close_server(server)  # waits for connections that are being accepted, too
        open_now = {**self._unauthenticated, **self._links}
        for task, writer in open_now.items():
            writer.transport.abort()  # also for a task that never began
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
        for writer in open_now.values():
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if server is not None:
            await server.wait_closed()  # last, because newer Pythons wait here for every connection


def _bind(host: str) -> socket.socket:
    """Return a listening socket on a free port; raise OSError."""
    # Given a host, asyncio would bind one socket for each of its addresses.
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address, family=family)
