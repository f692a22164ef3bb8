"""A console whose writes never block and never tear a line.

A stalled reader (a paused terminal, a full pipe) must not delay the event loop, which also copies every worker's output
to its file. O_NONBLOCK does not help: the flag belongs to the open file. The agent shares that file with its workers
and its parent, and *their* writes would break. A poll before the write does not help either, because another process
may fill the pipe in between.

So one thread, started at the first write, may block. If none can be started, the lines wait for the next write or the
end. Between it and the callers is a bounded buffer. When the buffer is full, whole writes are dropped and counted. The
count is shown as soon as the console accepts bytes again.
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
"""PIPE_BUF in bytes: a pipe takes this much in one piece, so no other line is mixed into it."""
_STALLED_S = 1.0
"""Seconds without a byte taken after which a console counts as stalled, not slow."""


class Console:
    """Writer of whole lines to one descriptor, such as 1 or 2, which it does not own, or to a function."""

    def __init__(self, target: int | Callable[[bytes], object], *, buffer_bytes: int = _BUFFER_BYTES) -> None:
        """Keep the arguments; the thread starts at the first write.

        Args:
            target: a file, pipe or terminal, blocking or not; or a function that shows whole lines and may block.
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
        """The error after which the console accepts nothing, such as a broken pipe. Later writes are dropped."""

    def write(self, lines: bytes) -> None:
        """Queue these whole lines, or drop them all if there is no space; never block."""
        with self._changed:
            if self.error or self._closed:
                return
            # An empty buffer takes a write of any size. Memory is still bounded, by one write.
            if self._waiting and self._waiting_bytes + len(lines) > self._buffer_bytes:
                self._dropped_bytes += len(lines)
                return
            self._append_notice()
            self._append(lines)
            self._start_thread()

    def is_behind(self) -> bool:
        """Whether much is queued and it moves: a caller with more lines should wait, so that none are dropped."""
        return self._waiting_bytes >= self._buffer_bytes // 4 and self.is_draining()

    def is_draining(self) -> bool:
        """Whether it is not broken and has taken something in the last second."""
        return not self.error and time.monotonic() - self._drained_s < _STALLED_S

    def close(self, *, within_s: float = 1.0) -> bool:
        """Accept no more and wait up to `within_s` for the queue; return whether everything was written."""
        with self._changed:
            self._append_notice()
            if self._waiting:
                self._start_thread()
            self._closed = True
            self._changed.notify()
        if self._thread:
            self._thread.join(within_s)
        return not self._waiting and self.error is None

    def _start_thread(self) -> None:
        """Start the thread if there is none; a limit of processes may allow none now, and the lines wait."""
        if self._thread:
            return
        thread = threading.Thread(target=self._run, name="console", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return
        self._drained_s = time.monotonic()
        self._thread = thread

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
            except Exception as error:  # noqa: BLE001 - a function of the caller may raise anything
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
    """Write everything in pieces of whole lines that a pipe takes at once, and a longer line in several."""
    start = 0
    while start < len(lines):
        end = lines.rfind(b"\n", start, start + _WRITE_BYTES) + 1
        start += _write_some(fd, lines[start : end or start + _WRITE_BYTES])


def _write_some(fd: int, piece: bytes) -> int:
    try:
        return os.write(fd, piece)
    except BlockingIOError:  # another process has made this open file non-blocking; leave it so
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        poller.poll()
        return 0
