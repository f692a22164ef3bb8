"""Read the progress that workers write as JSON lines into the FIFO of ELASTICJOB_PROGRESS; keep the newest.

`{"step", "total", "metrics"}` is progress. `{"alive": true}` is a heartbeat. `{"stacks": {…}}` is about a process that
writes its stacks on a signal; see `stack_signals.py`.

The worker needs no import. Lines that are not JSON objects, or too long, are dropped: progress is for display and must
never harm a run. The agent holds a write end itself, so that the FIFO stays open when a worker closes it.
"""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from elasticjob_agent.workers.stack_signals import StackSignals
from elasticjob_api.records import Progress

_READ_BYTES = 65536
_MAX_LINE = 4096
_MAX_METRICS = 32
_MAX_TEXT = 128


class ProgressFifo:
    """The FIFO of one node; `last` is the newest progress received."""

    def __init__(self, path: Path) -> None:
        """Create the FIFO at `path` and read it in the running event loop."""
        self.path = path
        self.last: Progress | None = None
        self.messages = 0
        """Lines of progress and heartbeats so far: signs of life."""
        self.stack_signals = StackSignals()
        self._partial_line = b""
        os.mkfifo(path, 0o622)
        path.chmod(0o622)  # a worker may run as another user
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def forget(self) -> None:
        """Drop the progress of the last round, also that which has not been read yet; a new round begins."""
        self._read()
        self.last, self._partial_line = None, b""
        self.stack_signals.clear()

    def close(self) -> None:
        """Stop reading, and remove the FIFO."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self._partial_line = self._partial_line[:_MAX_LINE]
        for line in lines:
            self.last = self._on_line(line) or self.last

    def _on_line(self, line: bytes) -> Progress | None:
        """Count or register the message in a line. Return its progress, None if it has none."""
        value = _mapping(line)
        if value is None:
            return None
        if self.stack_signals.take(value.get("stacks")):
            return None
        self.messages += 1
        return None if value == {"alive": True} else _progress(value)


def parse_progress(line: bytes) -> Progress | None:
    """Return the progress in one line; None if it has none."""
    value = _mapping(line)
    return None if value is None else _progress(value)


def _mapping(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line[:_MAX_LINE])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _progress(value: dict[str, Any]) -> Progress:
    metrics = value.get("metrics")
    return Progress(step=_as_int(value.get("step")), total=_as_int(value.get("total")), metrics=_texts(metrics))


def _as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(name)[:_MAX_TEXT]: str(item)[:_MAX_TEXT] for name, item in list(value.items())[:_MAX_METRICS]}
