"""A failed worker's own report: its error file, else the last words on its stderr.

The file is the worker's: it may be missing, huge, a FIFO, a link or nonsense. It is opened without following
links, without blocking, and only the beginning of a regular file is read.
"""

import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAIL_BYTES = 4096
"""The part of stderr that is kept."""

_MAX_BYTES = 256 * 1024
_MAX_TEXT = 1024
_MAX_DIGITS = 40
_MAX_TIME_S = 1 << 33
_PREFIX_SEARCH = 16 * TAIL_BYTES
"""How much of one piece is looked at: lines may be short and prefixes long."""


@dataclass(frozen=True, slots=True)
class ErrorFileContents:
    """The content of an error file; empty and 0 without one."""

    message: str = ""
    time_ns: int = 0
    """When the error was caught, wall clock."""


EMPTY = ErrorFileContents()


def read_error_file(path: Path) -> ErrorFileContents:
    """What the file at `path` says, as torchrun's `record` writes it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return EMPTY
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return EMPTY
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        return EMPTY
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return EMPTY
    return ErrorFileContents(_message(value)[:_MAX_TEXT], _time_ns(value))


def _message(value: Any) -> str:
    """`{"message": "text"}` or `{"message": {"message": "text", …}}`."""
    for _ in range(2):
        value = value.get("message", "") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _time_ns(value: Any) -> int:
    """`message.extraInfo.timestamp`: seconds, as a whole number, a float, or either as text; else 0."""
    for name in ("message", "extraInfo", "timestamp"):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - few agents ever read one

    try:
        seconds = Decimal(str(value)[:_MAX_DIGITS])
    except (InvalidOperation, ValueError):
        return 0
    return int(seconds * 10**9) if seconds.is_finite() and 0 < seconds < _MAX_TIME_S else 0


class StderrTail:
    """The end of a stream that passes by, prefixes taken off."""

    def __init__(self, prefix: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._clock = clock
        self._buffer = b""
        self.at_s = 0.0
        """When something came last (monotonic seconds)."""

    def add(self, data: bytes) -> None:
        """Take in whole prefixed lines."""
        self.at_s = self._clock()
        lines = data[-_PREFIX_SEARCH:].split(b"\n")
        self._buffer = (self._buffer + b"\n".join(line.removeprefix(self._prefix) for line in lines))[-TAIL_BYTES:]

    @property
    def text(self) -> str:
        """The end of stderr, 4 KiB at most; bytes that are no text are left out."""
        return self._buffer.decode(errors="ignore").strip("\n")
