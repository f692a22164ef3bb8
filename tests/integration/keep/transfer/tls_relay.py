"""A host between two keepers that has a certificate of their authority, and no secret: it ends the TLS of both."""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable

from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from tests.integration.keep.transfer.faulty_network import HOST

_MOST_BYTES = 65536


class TlsRelay:
    """Forwards each connection to `target`; `change` gets what it reads, and returns what it sends instead."""

    def __init__(self, target: Address, tls: TlsContexts, change: Callable[[bytes], bytes]) -> None:
        self.read = bytearray()
        """All that keepers have sent through it."""
        self._target = target
        self._tls = tls
        self._change = change
        self._listener = socket.create_server((HOST, 0))
        self.address = Address(HOST, self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no further connection, and wait for the end of the one that is open."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with near, socket.create_connection((self._target.host, self._target.port)) as far:
                    self._forward(near, far)

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self._tls.listening.wrap_socket(near, server_side=True) as dialer,
            self._tls.dialing.wrap_socket(far) as listener,
        ):
            ends = {dialer: listener, listener: dialer}
            while (data := _receive(source := _await_data(*ends))) != b"":
                if data is not None:
                    self.read += data
                    ends[source].sendall(self._change(data))


def _await_data(*ends: ssl.SSLSocket) -> ssl.SSLSocket:
    ready = [each for each in ends if each.pending()] or select.select(ends, [], [])[0]
    return ready[0]


def _receive(source: ssl.SSLSocket) -> bytes | None:
    """Return what has arrived; None if that was a message of TLS alone, empty at the end."""
    source.setblocking(False)
    try:
        return source.recv(_MOST_BYTES)
    except ssl.SSLWantReadError:
        return None
    finally:
        source.setblocking(True)
