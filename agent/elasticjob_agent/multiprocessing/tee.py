"""The console side of a context's teed streams: the console, the prefixes, and the copy of filtered lines.

`supervisor/stream_pump.py` reads the pipes and writes the files. A console that is closed, lost or unusual causes one
warning and nothing else. The caller's stdout is looked up when the context starts.
"""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elasticjob_agent.supervisor import Console, FileSink, Inherit, LineSink, Null, Sink
from elasticjob_agent.supervisor.stream_pump import FileCopy

logger = logging.getLogger(__name__)
_CLOSE_S = 60.0
"""Seconds, at the end of a context, for a console that is slow but accepts all that is queued."""
_POLL_S = 0.5


class Tee:
    """One stream, stdout or stderr, of all workers of one context."""

    def __init__(self, stream_name: str, *, filters: list[str], filtered_path: str | None) -> None:
        """Keep the arguments; files are opened later.

        Args:
            stream_name: `stdout` or `stderr`.
            filters: lines that contain any of these are copied.
            filtered_path: the file for the copies.
        """
        self._stream_name = stream_name
        self._filters = [text.encode() for text in filters]
        self._filtered_path = filtered_path if filters else None
        self._copy: FileCopy | None = None
        self._console: Console | None = None
        self._is_open = False

    def sink(self, path: str, *, teed: bool, devnull: str, prefix: str) -> Sink:
        """Return the sink of one worker's stream."""
        if not path:
            return Inherit()
        if path == devnull:
            return Null()
        if not teed:
            return FileSink(Path(path))
        self._open()
        prefix_bytes = prefix.encode(errors="replace")
        console = self._console
        return LineSink(
            path=Path(path),
            prefix=prefix_bytes,
            write=self._writer(len(prefix_bytes)),
            as_text=True,
            is_behind=console.is_behind if console else None,
        )

    def open_filtered(self) -> None:
        """Create the file of the filtered lines, if there are filters."""
        if self._filtered_path and not self._copy:
            self._copy = FileCopy(Path(self._filtered_path))

    def close(self) -> None:
        """Show queued lines within a bounded time, and close; may be called again."""
        if self._copy:
            self._copy.close()
        if self._console:
            console, self._console = self._console, None
            _flush_console(console)
            if console.error:
                logger.warning("%s was lost while workers wrote to it: %s", self._stream_name, console.error)

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._console = _console_for(getattr(sys, self._stream_name), self._stream_name)

    def _writer(self, prefix_len: int) -> Callable[[bytes], None]:
        console, copy, filters = self._console, self._copy, self._filters

        def write(lines: bytes) -> None:
            if console:
                console.write(lines)
            if copy:
                matching = [line for line in lines.splitlines(keepends=True) if _has_any(line, prefix_len, filters)]
                if matching:
                    copy.write(b"".join(matching))

        return write


def _flush_console(console: Console) -> None:
    """Wait for queued lines while they move; do not wait for a stalled console."""
    end_s = time.monotonic() + _CLOSE_S
    while not console.close(within_s=_POLL_S) and console.is_draining() and time.monotonic() < end_s:
        pass


def _has_any(line: bytes, prefix_len: int, filters: list[bytes]) -> bool:
    return any(line.find(text, prefix_len) >= 0 for text in filters)


def _console_for(stream: Any, name: str) -> Console | None:
    """Return a console for the caller's stream, by its descriptor or its `write`, or None if it is not writable."""
    if stream is None or getattr(stream, "closed", False):
        logger.warning("%s of this process is closed: output of its workers goes to their files only", name)
        return None
    try:
        fd = stream.fileno()
        stream.flush()
    except (AttributeError, OSError, ValueError):  # an object with part of a file's interface
        return Console(_text_writer(stream))
    return Console(fd)


def _text_writer(stream: Any) -> Callable[[bytes], None]:
    def write(lines: bytes) -> None:
        stream.write(lines.decode(errors="replace"))
        stream.flush()

    return write
