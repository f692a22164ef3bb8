"""The parts of each recovery's time, from the trace files that the agents of one job wrote.

    points = recovery_timeline.read(path.read_text().splitlines())    lines of one or more files, in any order
    for recovery in recovery_timeline.recoveries(points): print(recovery_timeline.show(recovery))

A recovery lasts from the first sign that a round is needed to the last start of the round's workers. Its steps follow
each other, so they add up. A step ends with the last agent that took it; detect, propose and close end with the first.
The agents' clocks must agree: on one machine they do. A line that cannot be parsed is ignored, and a step without
trace points is left out. Nothing here raises an error.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elasticjob_api.trace_points import TracePoint

_Choice = Callable[..., Any]

_STARTED: TracePoint = "started"
_FAILED: TracePoint = "failed"
_SIGNS: tuple[TracePoint, ...] = (
    _FAILED,
    "detected",
    "link ended",
    "closer proved gone",
    "link proved",
    "lost",
    "joined",
)
"""Points that can be the reason of a round and do not belong to that round."""
_STEPS: Sequence[tuple[str, tuple[TracePoint, ...], _Choice]] = (
    ("detect", ("detected", "link proved", "closer proved gone"), min),
    ("propose", ("saw forming", "proposed"), min),
    ("stop", ("stopped",), max),
    ("ready", ("ready",), max),
    ("close", ("saw active",), min),
    ("restore", ("restored",), max),
    ("start", (_STARTED,), max),
)
"""Name, the points that end the step, and whether the first (min) or the last (max) of them does."""
_WHOLE_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class TraceLine:
    """One line of a trace; `round` is 0 for a point that belongs to none. A newer agent may write other names."""

    at_us: int
    agent: str
    round: int
    name: str


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """A part of a recovery, in µs since its begin; `agent` ended it."""

    name: str
    begin_us: int
    end_us: int
    agent: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery that led to one round; `begin_us` is wall-clock time, and steps count from there."""

    round: int
    begin_us: int
    took_us: int
    steps: tuple[RecoveryStep, ...]
    points: tuple[TraceLine, ...]


def read(lines: Iterable[str]) -> list[TraceLine]:
    """Return the points of these lines, in order of time."""
    return sorted(point for line in lines if (point := _point(line)) is not None)


def _point(line: str) -> TraceLine | None:
    try:
        fields = json.loads(line)
        return TraceLine(int(fields["t_us"]), str(fields["agent"]), int(fields["round"]), str(fields["point"]))
    except (ValueError, TypeError, KeyError):
        return None


def recoveries(points: Sequence[TraceLine]) -> list[Recovery]:
    """Return a recovery for each round that started workers, in order; the first is the start of the job."""
    rounds = sorted({point.round for point in points if point.name == _STARTED})
    found: list[Recovery] = []
    after_us = 0
    for round_ in rounds:
        recovery = _recovery(points, round_, after_us)
        after_us = recovery.begin_us + recovery.took_us
        found.append(recovery)
    return found


def _recovery(points: Sequence[TraceLine], round_: int, after_us: int) -> Recovery:
    own = [point for point in points if point.round == round_ and point.name not in _SIGNS]
    opened_us = min(point.at_us for point in own)
    signs = [
        point for point in points if point.name in _SIGNS and after_us < point.at_us <= opened_us and _is_exact(point)
    ]
    end_us = max(point.at_us for point in own if point.name == _STARTED)
    begin_us = min((point.at_us for point in signs), default=opened_us)
    within = sorted({*signs, *(point for point in own if point.at_us <= end_us)})
    return Recovery(round_, begin_us, end_us - begin_us, tuple(_steps(within, begin_us)), tuple(within))


def _is_exact(point: TraceLine) -> bool:
    """Return whether the time of a point is exact."""
    # The end of a worker may come from its error file, which many frameworks stamp in whole seconds.
    return point.name != _FAILED or point.at_us % _WHOLE_SECOND_US != 0


def _steps(points: Sequence[TraceLine], begin_us: int) -> Iterable[RecoveryStep]:
    at_us = begin_us
    for name, ends, which in _STEPS:
        candidates = [point for point in points if point.name in ends and point.at_us >= at_us]
        if not candidates:
            continue
        end = which(candidates)
        yield RecoveryStep(name, at_us - begin_us, end.at_us - begin_us, end.agent)
        at_us = end.at_us


def show(recovery: Recovery, *, points: bool = True) -> str:
    """Return lines for a terminal: each step with its duration, and each point in µs since the begin."""
    lines = [f"round {recovery.round}: {recovery.took_us:,} µs"]
    lines += [
        f"  {step.name:<8} {step.end_us - step.begin_us:>12,} µs   ended by {step.agent}" for step in recovery.steps
    ]
    if points:
        lines += [f"  {point.at_us - recovery.begin_us:>12,}  {point.agent}: {point.name}" for point in recovery.points]
    return "\n".join(lines)
