"""A console that cannot stop anyone: writing to it never blocks, and never tears a line.

A stalled reader (a paused terminal, a full pipe) must not hold up the event loop, and with it every worker's file
copy. O_NONBLOCK is no way out: it belongs to the open file, which the agent shares with its workers and its parent, and
would break *their* writes. Asking poll first is none either: between the answer and the write another process may fill
the pipe. So one thread, started at the first write, is allowed to block; between it and the callers is a bounded
buffer. When that is full, whole writes are dropped and counted, and the count is shown as soon as the console takes
bytes again.
"""

import collections
import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial

_BUFFER_BYTES = 8 << 20
_WRITE_BYTES = 4096
"""PIPE_BUF: a pipe takes this much in one piece, so no other line lands inside ours."""
_STALLED_S = 1.0
"""A console that has taken nothing for this long is stalled, not slow."""


class Console:
    """Lines for one descriptor, as 1 or 2, which stays the caller's; or for any function."""

    def __init__(self, target: int | Callable[[bytes], object], *, buffer_bytes: int = _BUFFER_BYTES) -> None:
        """Start nothing yet.

        Args:
            target: a file, pipe or terminal, blocking or not; or what shows whole lines, and may block.
            buffer_bytes: how much may wait for a stalled reader before writes are dropped.
        """
        self._emit = partial(_write_lines, target) if isinstance(target, int) else target
        self._drained_s = 0.0
        self._buffer_bytes = buffer_bytes
        self._waiting: collections.deque[bytes] = collections.deque()
        self._waiting_bytes = 0
        self._dropped_bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.error: Exception | None = None
        """Why the console takes nothing any more, as a broken pipe; from then on writes are dropped."""

    def write(self, lines: bytes) -> None:
        """Show these whole lines soon, or drop them all if there is no room; never blocks."""
        with self._changed:
            if self.error or self._closed:
                return
            # A write larger than all the room is still let into an empty buffer: memory stays bounded by one write.
            if self._waiting and self._waiting_bytes + len(lines) > self._buffer_bytes:
                self._dropped_bytes += len(lines)
                return
            self._append_notice()
            self._append(lines)
            if not self._thread:
                self._drained_s = time.monotonic()
                self._thread = threading.Thread(target=self._run, name="console", daemon=True)
                self._thread.start()

    def is_behind(self) -> bool:
        """Much is waiting, but it moves: whoever has more should rather wait than have it dropped."""
        return self._waiting_bytes >= self._buffer_bytes // 4 and self.is_draining()

    def is_draining(self) -> bool:
        """It has taken something in the last second, and is not broken."""
        return not self.error and time.monotonic() - self._drained_s < _STALLED_S

    def close(self, *, within_s: float = 1.0) -> bool:
        """Take no more, wait up to `within_s` for what is waiting; True if everything was written."""
        with self._changed:
            self._append_notice()
            self._closed = True
            self._changed.notify()
        if self._thread:
            self._thread.join(within_s)
        return not self._waiting and self.error is None

    def _append(self, lines: bytes) -> None:
        self._waiting.append(lines)
        self._waiting_bytes += len(lines)
        self._changed.notify()

    def _append_notice(self) -> None:
        if self._dropped_bytes:
            notice = f"(the console was stalled: {self._dropped_bytes} bytes of output are not shown here)\n"
            self._dropped_bytes = 0
            self._append(notice.encode("ascii"))

    def _run(self) -> None:
        while lines := self._next():
            try:
                self._emit(lines)
            except Exception as error:  # noqa: BLE001 - a target of the caller's own may raise anything
                with self._changed:
                    self.error = error
                    self._waiting.clear()
                return
            with self._changed:
                self._waiting.popleft()
                self._waiting_bytes -= len(lines)
                self._drained_s = time.monotonic()

    def _next(self) -> bytes:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return self._waiting[0] if self._waiting else b""


def _write_lines(fd: int, lines: bytes) -> None:
    """Write everything, in pieces of whole lines that a pipe takes at once; a longer line in pieces."""
    start = 0
    while start < len(lines):
        end = lines.rfind(b"\n", start, start + _WRITE_BYTES) + 1
        start += _write_some(fd, lines[start : end or start + _WRITE_BYTES])


def _write_some(fd: int, piece: bytes) -> int:
    try:
        return os.write(fd, piece)
    except BlockingIOError:  # somebody else made this open file non-blocking; leave it so
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        poller.poll()
        return 0
