"""The console of a run: lines of elasticjob with the time since the start, and the workers' lines unchanged.

It keeps the last lines of the pods for a while, so that no later line repeats them (`repeats`).

A line is never torn and never blocks the event loop (`supervisor.Console` has the thread that may block). Colour is
used only on a terminal, and not with NO_COLOR. The lines of elasticjob are ASCII, except for text that they quote.
"""

import asyncio
import io
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TextIO

from elasticjob_agent.supervisor import Console
from elasticjob_api import log_layout
from elasticjob_cli.local.repeats import RecentOutput, is_end_of_job
from elasticjob_cli.terminal import printable

_RESET = "\x1b[0m"


class TextStyle(Enum):
    """A style of a line; the value is its colour on a terminal."""

    PLAIN = ""
    NOTE = "\x1b[2m"
    GOOD = "\x1b[32m"
    BAD = "\x1b[31m"


class RunConsole:
    """Write to one stream; `on_broken` is called in the event loop when its reader has closed it."""

    def __init__(self, stream: TextIO, *, environ: Mapping[str, str], on_broken: Callable[[], None]) -> None:
        """Start the clock of the lines."""
        self._fd = stream.fileno()
        self._console = Console(self._fd)
        self._colour = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self._since_s = time.monotonic()
        self.recent = RecentOutput()
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._watched = _is_pipe(self._fd)
        if self._watched:
            # When the reader of a pipe closes it, a wait for reading at this end wakes up with an error condition.
            self._loop.add_reader(self._fd, self._on_broken_pipe)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the console was created."""
        return time.monotonic() - self._since_s

    def info(self, text: str, tone: TextStyle = TextStyle.PLAIN) -> None:
        """Write a line of elasticjob; further lines of the text are indented."""
        mark = f"[elasticjob {self.elapsed_s:5.1f}s]"
        body = "\n  ".join(printable(text).splitlines()) or ""
        if self._colour:
            mark, body = f"{TextStyle.NOTE.value}{mark}{_RESET}", f"{tone.value}{body}{_RESET if tone.value else ''}"
        self._write(f"{mark} {body}\n".encode(errors="replace"))

    def print(self, text: str) -> None:
        """Write lines without a mark, for example a table."""
        self._write(f"{printable(text)}\n".encode(errors="replace"))

    def forward(self, pod: str, lines: bytes) -> None:
        """Write whole lines of a pod's containers; a line without a rank gets the pod's name in front."""
        self.recent.record(lines)
        if shown := attribute_ranks(pod, lines):
            self._write(shown)

    def close(self) -> None:
        """Write the lines that are still queued, within a short time limit."""
        self._unwatch()
        self._console.close()

    def _write(self, data: bytes) -> None:
        self._console.write(data)
        if self._console.error is not None:
            self._loop.call_soon_threadsafe(self._on_broken_pipe)  # a library may log from its own thread

    def _on_broken_pipe(self) -> None:
        self._unwatch()
        self._on_broken()

    def _unwatch(self) -> None:
        if self._watched:
            self._loop.remove_reader(self._fd)
            self._watched = False


def attribute_ranks(pod: str, lines: bytes) -> bytes:
    """Return the lines, each with its rank or the pod in front; the agent writes the ranks where it has several.

    Lines of agents about the end of the job are left out: the summary has their content.
    """
    prefix = f"[{pod}] ".encode()
    # Not splitlines: it would cut at the carriage returns of progress bars too.
    shown = (line for line in io.BytesIO(lines) if not is_end_of_job(line))
    return b"".join(line if _has_rank(line) else prefix + line for line in shown)


def _has_rank(line: bytes) -> bool:
    return log_layout.split_line(line.decode(errors="replace"))[0] is not None


def _is_pipe(fd: int) -> bool:
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


def print_resource(text: str) -> bool:
    """Write the resource to stdout; return False if the reader has closed it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python flushes again at exit and reports an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
