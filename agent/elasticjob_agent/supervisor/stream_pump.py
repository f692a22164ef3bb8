"""Pump of one teed stream: it copies a worker's pipe to a file and, in lines, to a console.

A pump reads in large pieces from the event loop, without a thread. Its file copy is byte-exact and loses nothing when
the console is slow, because `LineSink.write` must not block. A full disk ends the copy with one line about it; the
worker and its console output continue.

A pump ends at the end of its pipe. A grandchild may hold the pipe open after the worker has ended. So from then on
`QUIET_S` without a byte ends it too, and `MAX_DRAIN_S` in any case. The rest of the pipe is still read, so nothing that
the worker wrote is lost.
"""

import asyncio
import errno
import os
from pathlib import Path

from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.line_prefixer import ConsoleText, LinePrefixer
from elasticjob_agent.supervisor.process_types import LineSink

QUIET_S = 0.5
"""Seconds without a byte, after the worker's end, until its pipe is no longer read."""
MAX_DRAIN_S = 5.0
"""Maximum seconds after the worker's end in which output of a grandchild is still read."""
PIPE_BYTES = 1 << 20
"""Size in bytes that a pipe is enlarged to, which is how far a worker may run ahead of a busy agent."""
_READ_BYTES = 1 << 18
_PAUSE_S = 0.01
"""Seconds between two checks of a console that is behind."""


def open_log(path: Path) -> int:
    """Open for writing at the end, and create the file if necessary; of a FIFO, a write does not wait for the reader.

    Raises:
        OSError: it cannot be opened, or is a FIFO without a reader. A worker may have put it there.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # it has no reader
            raise OSError(errno.ENXIO, "it is a FIFO that has no reader", str(path)) from None
        raise


class FileCopy:
    """The byte-exact copy of a stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = fd_registry.register(open_log(path))

    def write(self, data: bytes) -> bytes:
        """Append; if the file has just become impossible to write, return the line to show, else nothing."""
        if self._fd < 0:
            return b""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.close()
            text = (
                f"log file {self._path} ends here: {error.strerror}; the worker continues, its output is only shown\n"
            )
            return text.encode(errors="replace")
        return b""

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._fd >= 0:
            fd_registry.close(self._fd)
            self._fd = -1


class LinePump:
    """Reads one pipe to its end; `done` resolves after the last byte is in the file and with the console."""

    def __init__(self, fd: int, sink: LineSink, copy: FileCopy | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._fd = fd_registry.register(fd)
        self._sink = sink
        self._copy = copy
        self._text = ConsoleText() if sink.as_text else None
        self._lines = LinePrefixer(sink.prefix)
        self._last_read_s = 0.0
        self._has_read = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(fd, self._read)

    def leader_ended(self, *, max_s: float = MAX_DRAIN_S) -> None:
        """Limit the wait for the end of the pipe, because the worker has ended."""
        if not self.done.done():
            self._last_read_s = self._loop.time()
            self._check_quiet(self._last_read_s + max_s)

    def _check_quiet(self, give_up_at_s: float) -> None:
        # In each turn of the loop, readers run before timers. So a loop that was late cannot take its own pause for one
        # of the pipe.
        end_s = min(self._last_read_s + QUIET_S, give_up_at_s)
        if self._loop.time() < end_s:
            self._timer = self._loop.call_at(end_s, self._check_quiet, give_up_at_s)
            return
        for _ in range(PIPE_BYTES // _READ_BYTES + 1):
            self._read()
        self._finish()

    def _read(self) -> None:
        if self.done.done():
            return
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._finish()
            return
        if self._sink.on_first_byte and not self._has_read:
            self._sink.on_first_byte()
        self._has_read = True
        self._last_read_s = self._loop.time()
        notice = self._copy.write(data) if self._copy else b""
        self._emit_lines(self._lines.feed(self._text.feed(data) if self._text else data))
        self._emit_lines(notice and self._sink.prefix + notice)
        if self._sink.is_behind and self._sink.is_behind():
            self._loop.remove_reader(self._fd)
            self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self.done.done():
            return
        if self._sink.is_behind and self._sink.is_behind():
            self._loop.call_later(_PAUSE_S, self._resume)
        else:
            self._loop.add_reader(self._fd, self._read)

    def _finish(self) -> None:
        if self.done.done():
            return
        if self._timer:
            self._timer.cancel()
        self._loop.remove_reader(self._fd)
        fd_registry.close(self._fd)
        if self._copy:
            self._copy.close()
        if self._text:
            self._emit_lines(self._lines.feed(self._text.flush()))
        self._emit_lines(self._lines.flush())
        self.done.set_result(None)

    def _emit_lines(self, lines: bytes) -> None:
        if lines:
            self._sink.write(lines)
