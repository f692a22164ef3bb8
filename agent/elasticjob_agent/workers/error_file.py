"""The error report of a failed worker: its error file, else the end of its stderr.

The worker writes the file, so it may be missing, huge, a FIFO, a link or invalid. It is opened without following links
and without blocking, and only a regular file of at most 256 KiB is used.
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
"""Bytes of stderr that are kept: its end."""

_MAX_BYTES = 256 * 1024
_MAX_TEXT = 1024
_MAX_DIGITS = 40
_MAX_TIME_S = 1 << 33
_PREFIX_SEARCH = 16 * TAIL_BYTES
"""Bytes of one piece that are searched for prefixes: lines may be short and prefixes long."""


@dataclass(frozen=True, slots=True)
class ErrorFileContents:
    """The contents of an error file; the defaults if there is no usable one."""

    message: str = ""
    time_ns: int = 0
    """The time at which the error was caught, wall clock; 0 if unknown."""


EMPTY = ErrorFileContents()


def read_error_file(path: Path) -> ErrorFileContents:
    """Return the contents of the file at `path`, whose format is that of torchrun's `record`."""
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
    """Return the text of `{"message": "text"}` or `{"message": {"message": "text", …}}`; else an empty text."""
    for _ in range(2):
        value = value.get("message", "") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _time_ns(value: Any) -> int:
    """Return `message.extraInfo.timestamp` in ns. It is in seconds: an int, a float, or text of one; else return 0."""
    for name in ("message", "extraInfo", "timestamp"):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - few agents read an error file

    try:
        seconds = Decimal(str(value)[:_MAX_DIGITS])
    except (InvalidOperation, ValueError):
        return 0
    return int(seconds * 10**9) if seconds.is_finite() and 0 < seconds < _MAX_TIME_S else 0


class StderrTail:
    """The end of a stream, without the prefixes of its lines."""

    def __init__(self, prefix: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._clock = clock
        self._buffer = b""
        self.at_s = 0.0
        """The time of the last data (monotonic seconds)."""

    def add(self, data: bytes) -> None:
        """Add whole lines with prefixes."""
        self.at_s = self._clock()
        lines = data[-_PREFIX_SEARCH:].split(b"\n")
        self._buffer = (self._buffer + b"\n".join(line.removeprefix(self._prefix) for line in lines))[-TAIL_BYTES:]

    @property
    def text(self) -> str:
        """The end of stderr, at most 4 KiB; bytes that are not UTF-8 are left out."""
        return self._buffer.decode(errors="ignore").strip("\n")
