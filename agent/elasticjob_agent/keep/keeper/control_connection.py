"""The keeper's end of the socket to its agent: lines in both directions, and neither blocks.

An agent that is stopped reads nothing. Then notices are dropped, and only the newest holdings and progress wait.
"""

import contextlib
import socket

from elasticjob_agent.keep.keeper.line_parser import LineParser
from elasticjob_agent.keep.keeper.messages import (
    HoldingsUpdate,
    Message,
    Note,
    ProgressUpdate,
    encode_message,
)
from elasticjob_agent.keep.keeper.persist_messages import PersistUpdate

_READ_BYTES = 1 << 16
_MOST_WAITING_BYTES = 1 << 20


class ControlConnection:
    """A non-blocking socket for lines."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._lines = LineParser()
        self._waiting = bytearray()
        self._newest: dict[type[Message], Message] = {}

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    @property
    def has_waiting(self) -> bool:
        """Whether something waits until the agent reads."""
        return bool(self._waiting or self._newest)

    def receive(self) -> list[bytes] | None:
        """Return the lines that have arrived; None if the agent has ended; raise ControlError."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        return self._lines.feed(data) if data else None

    def send(self, message: Message) -> None:
        """Send a message, now or when the agent reads; drop a sentence for users if too much waits."""
        if isinstance(message, HoldingsUpdate | ProgressUpdate | PersistUpdate):
            self._newest[type(message)] = message
        elif not isinstance(message, Note) or len(self._waiting) < _MOST_WAITING_BYTES:
            self._waiting += encode_message(message)
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the agent has read what was before."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self.has_waiting:
                if not self._waiting:
                    _, newest = self._newest.popitem()
                    self._waiting += encode_message(newest)
                del self._waiting[: self._socket.send(self._waiting)]
