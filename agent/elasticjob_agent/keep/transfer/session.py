"""A connection whose other end has proved that it belongs to the job, and the messages on it."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from elasticjob_agent.keep.transfer import frames, handshake, signed_lines
from elasticjob_agent.keep.transfer.connection import STALL_S, Connection, TlsContexts
from elasticjob_agent.keep.transfer.errors import ConnectionEndedError, FrameError, HandshakeError
from elasticjob_agent.keep.transfer.frames import Message
from elasticjob_agent.keep.transfer.handshake import KeeperHello, KeeperIdentity, Purpose
from elasticjob_agent.keep.transfer.signed_lines import IncomingLines, OutgoingLines
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, Authenticator, Peer

HANDSHAKE_TIMEOUT_S = 2.0
"""Seconds in which each side proves its identity."""


@dataclass(frozen=True, slots=True)
class KeeperCredentials:
    """The proof of a keeper's identity; `tls` is None in a release without TLS."""

    identity: KeeperIdentity
    secret: bytes = field(repr=False)
    """The job's link secret."""
    tls: TlsContexts | None = None


class Session:
    """Sends and receives signed messages; `peer` is the other end's hello."""

    def __init__(self, connection: Connection, key: bytes, *, side: Peer, peer: KeeperHello) -> None:
        """`side` is this end's."""
        self.connection = connection
        self.peer = peer
        other = Peer.ANSWERS if side is Peer.DIALS else Peer.DIALS
        self.outgoing = OutgoingLines(key, side)
        self.incoming = IncomingLines(key, other)

    def send(self, message: Message) -> None:
        """Send one message."""
        self.connection.write(self.outgoing.encode(frames.encode(message)))

    def receive(self, *, within_s: float | None = None) -> Message:
        """Return the next message; each line of it must come within `within_s` seconds, or the usual time."""
        while True:
            line = self.connection.read_line(signed_lines.MAX_LINE_BYTES, within_s)
            if (data := self.incoming.take(line)) is not None:
                return frames.decode(data)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self.connection.close()


def unexpected(message: object) -> FrameError:
    """Return the error for a message that has no place here."""
    return FrameError(f"unexpected message: {type(message).__name__}")


def connect(address: Address, *, within_s: float = HANDSHAKE_TIMEOUT_S, stall_s: float = STALL_S) -> Connection:
    """Return a connection to a keeper; raise ConnectionEndedError."""
    try:
        socket_ = socket.create_connection((address.host, address.port), timeout=within_s)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
        raise ConnectionEndedError(f"no connection to the keeper at {address}: {error}") from error
    if is_own(socket_):
        socket_.close()
        raise ConnectionEndedError(f"no process listens at {address}")
    return Connection(socket_, stall_s=stall_s)


def is_own(socket_: socket.socket) -> bool:
    """Whether a socket is connected to itself: the kernel can choose the dialed local port as the source port."""
    try:
        return bool(socket_.getsockname() == socket_.getpeername())
    except OSError:  # it has ended
        return False


def dial(
    connection: Connection,
    credentials: KeeperCredentials,
    purpose: Purpose,
    *,
    random_hex: Callable[[], str],
    within_s: float = HANDSHAKE_TIMEOUT_S,
) -> Session:
    """Prove the identity of both ends on a new connection, and return the session.

    Raises:
        HandshakeError: the other end is a stranger, or belongs to another run.
        TransferError: it did not answer.
    """
    deadline_s = time.monotonic() + within_s
    if credentials.tls is not None:
        connection.start_tls(credentials.tls, dials=True, within_s=within_s)
    secret = handshake.bind_secret(credentials.secret, connection.tls_binding)
    challenge = handshake.decode_challenge(_read_line(connection, deadline_s))
    mine = KeeperHello(purpose, credentials.identity, random_hex() + random_hex())
    connection.write(handshake.encode_hello(mine, Authenticator(secret, Peer.DIALS, challenge)))
    line = _read_line(connection, deadline_s)
    answer = handshake.decode_hello(line, Authenticator(secret, Peer.ANSWERS, mine.nonce))
    handshake.check_answer(answer, mine=mine, challenge=challenge)
    key = handshake.session_key(secret, challenge, mine)
    return Session(connection, key, side=Peer.DIALS, peer=answer)


def answer_dial(
    connection: Connection,
    credentials: KeeperCredentials,
    *,
    random_hex: Callable[[], str],
    within_s: float = HANDSHAKE_TIMEOUT_S,
) -> Session:
    """As `dial`, for the listening side: a stranger gets a challenge and nothing else."""
    deadline_s = time.monotonic() + within_s
    if credentials.tls is not None:
        connection.start_tls(credentials.tls, dials=False, within_s=within_s)
    secret = handshake.bind_secret(credentials.secret, connection.tls_binding)
    challenge = random_hex() + random_hex()
    connection.write(handshake.encode_challenge(challenge))
    line = _read_line(connection, deadline_s)
    hello = handshake.decode_hello(line, Authenticator(secret, Peer.DIALS, challenge))
    answer = KeeperHello(hello.purpose, credentials.identity, challenge)
    connection.write(handshake.encode_hello(answer, Authenticator(secret, Peer.ANSWERS, hello.nonce)))
    handshake.check_peer(hello.identity, mine=credentials.identity)  # last: a keeper of another run learns why
    key = handshake.session_key(secret, challenge, hello)
    return Session(connection, key, side=Peer.ANSWERS, peer=hello)


def _read_line(connection: Connection, deadline_s: float) -> bytes:
    try:
        return connection.read_line(handshake.MAX_LINE_BYTES, deadline_s - time.monotonic())
    except FrameError as error:
        raise HandshakeError(str(error)) from error


def shut_down(socket_: socket.socket) -> None:
    """Wake each thread that uses the socket; idempotent."""
    with contextlib.suppress(OSError):
        socket_.shutdown(socket.SHUT_RDWR)


def load_tls(*, certificate: str, key: str, authority: str) -> TlsContexts:
    """Return contexts that present this certificate and require one of the same authority.

    All arguments are paths of PEM files. The certificate must be one for clients and for servers.
    """
    dialing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    dialing.check_hostname = False
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in (dialing, listening):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    return TlsContexts(dialing, listening)
