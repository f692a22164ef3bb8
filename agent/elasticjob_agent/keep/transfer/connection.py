"""One TCP connection between keepers, plain or with TLS: lines and bytes, each with a limit of time.

Only one thread reads or writes; any thread may `end` it, which wakes that thread. Each error of the network becomes a
ConnectionEndedError, and a wait without progress a StalledError.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass

from elasticjob_agent.keep.transfer.errors import ConnectionEndedError, FrameError, StalledError

STALL_S = 5.0
"""Seconds without progress after which a transfer has failed."""
_READ_BYTES = 1 << 16
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """The two sides of mutual TLS by one authority; no host name is checked, since the secret proves the job."""

    dialing: ssl.SSLContext
    listening: ssl.SSLContext


class Connection:
    """A connected socket."""

    def __init__(self, socket_: socket.socket, *, stall_s: float = STALL_S) -> None:
        with contextlib.suppress(OSError):  # it has ended: the next use of it fails
            socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                socket_.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket = socket_
        self._stall_s = stall_s
        self._ahead = bytearray()
        """Bytes behind the last line that was read."""

    def start_tls(self, contexts: TlsContexts, *, dials: bool, within_s: float) -> None:
        """Encrypt everything from now on; raise ConnectionEndedError if the other end has no certificate."""
        context = contexts.dialing if dials else contexts.listening
        with _translated():
            self._socket = context.wrap_socket(self._socket, server_side=not dials, do_handshake_on_connect=False)
            self._socket.settimeout(within_s)
            self._socket.do_handshake()

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS protects the bytes."""
        return isinstance(self._socket, ssl.SSLSocket)

    @property
    def tls_binding(self) -> bytes:
        """Return a value that only the two ends of this TLS connection have; empty without TLS.

        Raise ConnectionEndedError if the library of TLS has none.
        """
        if not isinstance(self._socket, ssl.SSLSocket):
            return b""
        with _translated():
            # The first message Finished: a code over the whole handshake, by a key of this connection.
            binding = self._socket.get_channel_binding("tls-unique")
        if not binding:
            raise ConnectionEndedError(
                f"{ssl.OPENSSL_VERSION} has nothing that binds a proof to a connection; run the agent on OpenSSL"
            )
        return binding

    @property
    def peer_host(self) -> str:
        """Return the address of the other end."""
        with _translated():
            return str(self._socket.getpeername()[0])

    def read_line(self, limit: int, within_s: float | None = None) -> bytes:
        """Return the next line with its end; raise FrameError if it is longer than `limit`."""
        deadline_s = time.monotonic() + (self._stall_s if within_s is None else within_s)
        while (end := self._ahead.find(b"\n", 0, limit) + 1) == 0:
            if len(self._ahead) >= limit:
                raise FrameError(f"a line of more than {limit} bytes")
            self._ahead += self._receive(deadline_s)
        line = bytes(self._ahead[:end])
        del self._ahead[:end]
        return line

    def _receive(self, deadline_s: float) -> bytes:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise StalledError("no control line in time")
        with _translated():
            self._socket.settimeout(left_s)
            data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionEndedError("the other end closed the connection")
        return data

    def read_into(self, view: memoryview) -> int:
        """Fill the beginning of `view`, and return how many bytes.

        With TLS all of it is filled, unless the connection ends before: a record is small.
        """
        count = self._take_ahead(view)
        while count == 0 or (self.is_encrypted and count < len(view)):
            with _translated():
                self._socket.settimeout(self._stall_s)
                received = self._socket.recv_into(view[count:])
            if not received and not count:
                raise ConnectionEndedError("the other end closed the connection")
            if not received:
                break
            count += received
        return count

    def _take_ahead(self, view: memoryview) -> int:
        count = min(len(self._ahead), len(view))
        view[:count] = self._ahead[:count]
        del self._ahead[:count]
        return count

    def write(self, data: bytes | memoryview) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            with _translated():
                self._socket.settimeout(self._stall_s)
                sent = self._socket.send(view)
            view = view[sent:]

    def detach(self) -> tuple[socket.socket, bytes]:
        """Return the socket without a time limit, and the bytes that were read ahead; the caller closes it."""
        self._socket.setblocking(False)
        return self._socket, bytes(self._ahead)

    def end(self) -> None:
        """Wake the thread that uses the connection with an error; any thread may call it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # that of ssl would change what the thread uses

    def close(self) -> None:
        """Close the socket; idempotent."""
        with contextlib.suppress(OSError):
            self._socket.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StalledError("the other end made no progress") from error
    except (OSError, ValueError) as error:  # ValueError: closed by another thread
        raise ConnectionEndedError(f"the connection ended: {error}") from error
