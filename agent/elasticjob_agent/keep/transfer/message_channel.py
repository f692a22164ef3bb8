"""The messages of one session without waiting: for a thread that serves many sessions by a selector.

The socket is non-blocking. A peer that sends much more than an announcement at a time, or does not read, ends the
session: it is opened again.
"""

import contextlib
import ssl
from collections.abc import Iterator

from elasticjob_agent.keep.transfer import signed_lines
from elasticjob_agent.keep.transfer.errors import ConnectionEndedError, FrameError, StalledError
from elasticjob_agent.keep.transfer.session import Session

_READ_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
"""The most bytes that are read at a time."""


class MessageChannel:
    """The signed messages of a session whose handshake is done; the session must not be used any more."""

    def __init__(self, session: Session) -> None:
        self.peer = session.peer
        self._session = session
        self._socket, ahead = session.connection.detach()
        self._ahead = bytearray(ahead)

    def fileno(self) -> int:
        """Return the descriptor for a selector."""
        return self._socket.fileno()

    def receive(self) -> list[bytes]:
        """Return the messages that have arrived; raise TransferError if the session has ended or is not in order."""
        has_ended = self._read()
        messages = self._take_messages()
        if has_ended and not messages:
            raise ConnectionEndedError("the other end closed the connection")
        return messages

    def _read(self) -> bool:
        """Read what is there; return whether the other end has closed the connection."""
        try:
            with _translated():
                while data := self._socket.recv(_READ_BYTES):
                    self._ahead += data
                    if len(self._ahead) > _MOST_BYTES:
                        raise FrameError(f"more than {_MOST_BYTES} bytes at a time")
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except ssl.SSLWantWriteError as error:  # it wants new keys of TLS, and there is no room for the answer
            raise StalledError("the other end does not read") from error
        return True

    def _take_messages(self) -> list[bytes]:
        *lines, rest = bytes(self._ahead).split(b"\n")
        self._ahead = bytearray(rest)
        if len(self._ahead) > signed_lines.MAX_LINE_BYTES:
            raise FrameError(f"a line of more than {signed_lines.MAX_LINE_BYTES} bytes")
        found = [self._session.incoming.take(line + b"\n") for line in lines]
        return [message for message in found if message is not None]

    def send(self, message: bytes) -> None:
        """Send a message; raise StalledError if the other end does not read."""
        data = self._session.outgoing.encode(message)
        try:
            with _translated():
                sent = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        if sent < len(data):
            raise StalledError("the other end does not read")

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._session.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise
    except (OSError, ValueError) as error:
        raise ConnectionEndedError(f"the connection ended: {error}") from error
