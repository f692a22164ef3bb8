"""The parts of the time from an event to the next training step. Pure.

Each part ends with the last rank that has passed it; detect and agree end with the first agent. So the parts follow
each other and add up. torchrun writes no points, so that all before the script is one part: the restart.
`fork` ends with the script's first line, `script` with its imports.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WARM, COLD = "script, warm", "script, cold"
FIRST_STEP, STEADY = "first step", "steady"
_ENDS: Mapping[str, tuple[str, ...]] = {
    "detect": ("detected", "link proved", "closer proved gone", "joined"),
    "agree": ("saw active",),
    "fork": (WARM, COLD),
    "script": ("imported",),
    "process group": ("process group",),
    "model": ("model",),
    FIRST_STEP: (FIRST_STEP,),
}
_FIRST_AGENT = ("detect", "agree")
_RESTART = "restart"
PARTS = (_RESTART, *_ENDS)


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One line of a trace; `rank`, `world` and `pid` are -1 in lines of an agent."""

    at_us: int
    name: str
    rank: int = -1
    world: int = -1
    pid: int = -1


@dataclass(frozen=True, slots=True)
class Recovery:
    """The way from one event to the next training step of all ranks."""

    took_s: float
    parts_s: Mapping[str, float]
    is_warm: bool
    """Whether every rank had its imports done before its script began."""


def read(lines: Iterable[str]) -> list[Point]:
    """Return the points of a trace, in order of time; a line that is not whole yet is left out."""
    return sorted(point for line in lines if (point := _point(line)) is not None)


def _point(line: str) -> Point | None:
    try:
        fields = json.loads(line)
        numbers = (int(fields.get(name, -1)) for name in ("rank", "world", "pid"))
        return Point(int(fields["t_us"]), str(fields["point"]), *numbers)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def workers_at(points: Sequence[Point], name: str, *, world: int, after_us: int) -> dict[int, Point]:
    """Return by rank the latest point of this name after that time, in processes that began after it."""
    begun = {point.pid for point in points if point.name in {WARM, COLD} and point.at_us > after_us}
    return {point.rank: point for point in points if point.name == name and point.world == world and point.pid in begun}


def recovery(points: Sequence[Point], *, event_us: int, world: int) -> Recovery | None:
    """Return the recovery after this event, None if not every rank of a world of this size has trained a step."""
    steps = workers_at(points, FIRST_STEP, world=world, after_us=event_us)
    if len(steps) < world:
        return None
    pids = {point.pid for point in steps.values()}
    end_us = max(point.at_us for point in steps.values())
    own = [point for point in points if event_us < point.at_us <= end_us and (point.pid in pids or point.pid == -1)]
    is_warm = not any(point.name == COLD for point in own)
    return Recovery((end_us - event_us) / 1e6, _parts(own, event_us), is_warm)


def _parts(points: Sequence[Point], event_us: int) -> dict[str, float]:
    found: dict[str, float] = {}
    at_us = event_us
    for part, names in _ENDS.items():
        ends = [point.at_us for point in points if point.name in names]
        if not ends:
            continue
        # An agent may write its point after the worker has written its own.
        end_us = max(at_us, min(ends) if part in _FIRST_AGENT else max(ends))
        name = _RESTART if part == "fork" and not found else part
        found[name], at_us = (end_us - at_us) / 1e6, end_us
    return found
