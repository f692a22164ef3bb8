"""Trace points of one agent: what happened in which round, with microseconds; into a file only if one is named.

Lines are JSON: {"t_us", "agent", "round", "point"}; the clock is CLOCK_REALTIME so that several agents of one
machine (and, with synchronised clocks, of several) fall on one line of time. Writing is one `write` of one
short line to an append-only file: agents may share it. Of each point the last moment is kept in memory (there are
some twenty names): from these an agent tells how long a round took it (`recovery`).
"""

import json
import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TracedPoint:
    """When a point was reached first in its round; without a round (0), last."""

    round: int
    at_ns: int


class Tracer:
    """Where trace points go."""

    def __init__(self, path: str | None, agent: str) -> None:
        """`path` None: nowhere but into `points`."""
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._agent = agent
        self.points: dict[str, TracedPoint] = {}

    def point(self, name: str, round_: int) -> None:
        """Note that `name` happened now, in `round_`."""
        self.record(name, round_, time.time_ns())

    def record(self, name: str, round_: int, at_ns: int) -> None:
        """The same for a moment that has passed: lines of a file are not always in order of time."""
        known = self.points.get(name)
        if round_ == 0 or known is None or known.round != round_:
            self.points[name] = TracedPoint(round_, at_ns)
        if self._fd is not None:
            line = {"t_us": at_ns // 1000, "agent": self._agent, "round": round_, "point": name}
            os.write(self._fd, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
