"""The end of a transfer on request: one thread cancels, the thread that transfers gets an error at once."""

import contextlib
import threading
from collections.abc import Iterator

from elasticjob_agent.keep.transfer.connection import Connection
from elasticjob_agent.keep.transfer.errors import CancelledTransferError


class CancelToken:
    """Cancels one transfer, whatever it waits for."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def cancel(self) -> None:
        """End the transfer; idempotent."""
        self._cancelled.set()
        self.end_connection()

    def end_connection(self) -> None:
        """End the connection of now, if there is one; the transfer can be tried again."""
        with self._lock:
            if self._connection is not None:
                self._connection.end()

    def check(self) -> None:
        """Raise CancelledTransferError if the transfer was cancelled."""
        if self._cancelled.is_set():
            raise CancelledTransferError("the transfer was cancelled")

    def wait(self, seconds: float) -> None:
        """Wait; raise CancelledTransferError at once when the transfer is cancelled."""
        self._cancelled.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def owns(self, connection: Connection) -> Iterator[None]:
        """Let `cancel` end this connection during the block, and close it at the end."""
        with self._lock:
            self._connection = connection
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._connection = None
            connection.close()
