"""A TCP proxy between two keepers that damages or cuts what the dialing side, or the listening side, sends."""

import contextlib
import socket
import threading
from collections.abc import Callable

from elasticjob_agent.rendezvous.protocol.link_handshake import Address

HOST = "127.0.0.1"
Change = Callable[[int, bytes], bytes | None]
"""(bytes of this connection before, data) → what is sent instead; None cuts the connection."""


def unchanged(_before: int, data: bytes) -> bytes:
    """Send everything as it is."""
    return data


def cut_after(count: int) -> Change:
    """Send so many bytes of a connection, then cut it."""
    return lambda before, data: None if before >= count else data[: count - before]


def flip_at(position: int) -> Change:
    """Change one bit of the byte at this position of each connection."""

    def flip(before: int, data: bytes) -> bytes:
        index = position - before
        if not 0 <= index < len(data):
            return data
        return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]

    return flip


class FaultyNetwork:
    """Forwards to `target`; the two changes apply to connections that begin later."""

    def __init__(self, target: Address) -> None:
        self.from_dialer: Change = unchanged
        self.from_listener: Change = unchanged
        self.connections = 0
        self._target = target
        self._listener = socket.create_server((HOST, 0))
        self.address = Address(HOST, self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept_all, daemon=True)]
        self._threads[0].start()

    def damage_first(self, change: Change) -> None:
        """Apply a change to what the listening side sends on the first connection; cut each later one at once."""

        def first(before: int, data: bytes) -> bytes | None:
            self.from_listener = cut_after(0)
            return change(before, data)

        self.from_listener = first

    def _accept_all(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._target.host, self._target.port))
                self.connections += 1
                self._open += (near, far)
                for source, sink, change in ((near, far, self.from_dialer), (far, near, self.from_listener)):
                    thread = threading.Thread(target=_pump, args=(source, sink, change), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def close(self) -> None:
        """Cut everything."""
        _end(self._listener)
        for each in self._open:
            _end(each)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._open):
            each.close()


def _pump(source: socket.socket, sink: socket.socket, change: Change) -> None:
    before = 0
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sent = change(before, data)
            before += len(data)
            if sent is None:
                break
            sink.sendall(sent)
    _end(source)
    _end(sink)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
