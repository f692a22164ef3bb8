"""Endless responses of the API server: their lines as they arrive, and a token that ends all of them.

The token wakes a thread that waits in a read or a pause, from any thread, and leaves no connection behind.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lines:
    """The lines of a response, without their line ends."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._stopped = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield each line as it arrives; errors of the connection are those of urllib3, for the caller to handle."""
        rest = b""
        try:
            while piece := self._response.read1():
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except Exception:
            if not self._stopped:  # an interrupted read may raise any of several errors
                raise
        if rest and not self._stopped:
            yield rest

    def stop(self) -> None:
        """End the iteration."""
        self._stopped = True
        # ValueError: all was read, and the connection has another user. OSError: it was closed a moment ago.
        with suppress(ValueError, OSError):
            self._response.shutdown()


class CancelToken:
    """A token that is cancelled once; it ends the `attached` lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._attached: set[Lines] = set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the token was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End all attached lines, and all that are attached later."""
        self._cancelled.set()
        with self._lock:
            for lines in self._attached:
                lines.stop()

    def pause(self, seconds: float) -> bool:
        """Wait this long or until the token is cancelled; return whether it is."""
        return self._cancelled.wait(max(0.0, seconds))

    @contextmanager
    def attached(self, lines: Lines) -> Iterator[None]:
        """Attach the lines to the token inside the context; afterwards their connection may have another user."""
        with self._lock:
            self._attached.add(lines)
            if self.is_cancelled:
                lines.stop()
        try:
            yield
        finally:
            with self._lock:
                self._attached.discard(lines)
