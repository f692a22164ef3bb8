"""What a failed worker said of itself: its error file, else the last words on its stderr.

The file is the worker's: it may be missing, huge, a FIFO, a link or nonsense. It is opened without following
links, without blocking, and only the beginning of a regular file is read.
"""

import json
import os
import stat
from collections import deque
from pathlib import Path
from typing import Any

_MOST_BYTES = 256 * 1024
_MOST_TEXT = 1024
_TAIL_LINES = 20


def read_error_file(path: Path) -> str:
    """The message in an error file as torchrun's `record` writes it; empty when there is none to be had."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return ""
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        return ""
    try:
        return _message(json.loads(data))[:_MOST_TEXT]
    except (ValueError, RecursionError):
        return ""


def _message(value: Any) -> str:
    """`{"message": "text"}` or `{"message": {"message": "text", …}}`."""
    for _ in range(2):
        value = value.get("message", "") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


class Tail:
    """The last lines of a stream that passes by, prefixes taken off."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)

    def add(self, data: bytes) -> None:
        """Take in whole prefixed lines."""
        self._lines.extend(line.removeprefix(self._prefix)[:_MOST_TEXT] for line in data.splitlines()[-_TAIL_LINES:])

    def last_words(self) -> str:
        """The last line that says something: of a Python traceback that is the exception."""
        for line in reversed(self._lines):
            if line.strip():
                return line.decode(errors="replace").strip()
        return ""
