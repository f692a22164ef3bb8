"""Endless answers of an API server: lines as they come, and the one switch that ends all of them.

Whoever blocks in a read or in a pause is woken by the switch, from any thread; nothing is left behind.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lines:
    """The lines of one answer, without their ends."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._stopped = False

    def __iter__(self) -> Iterator[bytes]:
        """Each as it comes; errors of the connection are urllib3's, for whoever opened it."""
        rest = b""
        try:
            while piece := self._response.read1():
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except Exception:
            if not self._stopped:  # a read that was cut off says so in many ways
                raise
        if rest and not self._stopped:
            yield rest

    def stop(self) -> None:
        """No more of them."""
        self._stopped = True
        # ValueError: all was read, and the connection is somebody else's. OSError: it was closed a moment ago.
        with suppress(ValueError, OSError):
            self._response.shutdown()


class CancelToken:
    """A switch that is thrown once; `attached` names what it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._attached: set[Lines] = set()

    @property
    def is_cancelled(self) -> bool:
        """Whether all shall end."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End all, and all that comes later."""
        self._cancelled.set()
        with self._lock:
            for lines in self._attached:
                lines.stop()

    def pause(self, seconds: float) -> bool:
        """Wait so long or until it is thrown; whether it is."""
        return self._cancelled.wait(max(0.0, seconds))

    @contextmanager
    def attached(self, lines: Lines) -> Iterator[None]:
        """Within it these end with the rest; after it their connection may be another's."""
        with self._lock:
            self._attached.add(lines)
            if self.is_cancelled:
                lines.stop()
        try:
            yield
        finally:
            with self._lock:
                self._attached.discard(lines)
