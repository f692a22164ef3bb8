"""Trace points of one agent: the time of each named moment of a round, in microseconds.

They go to a file if one is named. A line is JSON: {"t_us", "agent", "round", "point"}. The clock is CLOCK_REALTIME, so
lines of several agents can be sorted by time; agents of several machines need synchronised clocks. Each line is one
short `write` to an append-only file, so agents may share the file.

The newest time of each point is kept in memory. The agent computes from them how long the steps of a round took
(`recovery_timings`).
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_api.trace_points import TracePoint


@dataclass(frozen=True, slots=True)
class TracedPoint:
    """The time at which a point was first reached in its round; for round 0 (no round), the last time."""

    round: int
    at_ns: int


TracedPoints = Mapping[TracePoint, TracedPoint]


class Tracer:
    """Writes trace points to a file and keeps the newest in memory."""

    def __init__(self, path: str | None, agent: str) -> None:
        """`path` None: points are kept in `points` only."""
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._agent = agent
        self.points: dict[TracePoint, TracedPoint] = {}

    def point(self, name: TracePoint, round_: int) -> None:
        """Record that `name` happened now, in `round_`."""
        self.record(name, round_, time.time_ns())

    def record(self, name: TracePoint, round_: int, at_ns: int) -> None:
        """Record that `name` happened at `at_ns`. So the lines of a file are not always in order of time."""
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
