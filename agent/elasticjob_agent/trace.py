"""Trace points of one agent: what happened in which round, with microseconds; off unless a file is named.

Lines are JSON: {"t_us", "agent", "round", "point"}; the clock is CLOCK_REALTIME so that several agents of one
machine (and, with synchronised clocks, of several) fall on one line of time. Writing is one `write` of one
short line to an append-only file: agents may share it.
"""

import json
import os
import time


class Trace:
    """Where trace points go."""

    def __init__(self, path: str | None, agent: str) -> None:
        """`path` None: nowhere."""
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._agent = agent

    def point(self, name: str, round_: int) -> None:
        """Note that `name` happened now, in `round_`."""
        if self._fd is None:
            return
        line = {"t_us": time.time_ns() // 1000, "agent": self._agent, "round": round_, "point": name}
        os.write(self._fd, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
