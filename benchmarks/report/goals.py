"""The table of goals: each with its measured value and the peer's; for a missed goal, the distance and the reason.

A goal's number is the target of the series that it names. Values of a cluster are from docs/latencies.md, which a run
of the tests on a real kind cluster writes. A reason names where the rest of the time is lost, and links to the profile.
It is on the page only while the goal is missed.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rendezvous.fits import ENOUGH, straight_line
from benchmarks.report import results
from benchmarks.report.results import FLOOR, OURS, Series


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal: the series of this name, for the largest job up to `size`."""

    what: str
    name: str
    size: int | None = None
    reason: str = ""
    """Where the rest of the time is lost, with a link to the evidence."""
    grows: bool = False
    """The value grows with the size: so a straight line through smaller sizes extrapolates to the goal's."""


@dataclass(frozen=True, slots=True)
class ClusterGoal:
    """A goal for a row of docs/latencies.md, in seconds."""

    what: str
    name: str
    limit_s: float


_TRACE = "where: its trace in [Where the time goes](#where-the-time-goes), explained in [its own page](recovery.md)"
_START = f"an agent's imports come before any trace point: [profile](#profile-of-an-agents-start); {_TRACE}"
_CROWD = (
    "processor time of this one machine, which all members share with etcd: [profile](#profile-of-the-members), "
    "explained in [its own page](scaling.md#where-the-time-of-a-first-round-of-1000-goes)"
)
_KEEP_ALIVES = "a keep-alive of every member each two seconds: [how it grows](#rendezvous-over-the-number-of-nodes)"
_STEPS = "the parts are in the plot below [the table](#from-an-event-to-the-next-training-step-of-all-ranks)"
_IDLE = (
    "gRPC's threads, which every keep-alive wakes, and what waking costs this machine: the floor in [An idle agent]"
    "(#an-idle-agent-its-starter-with-it) is a bare client of gRPC, in [Floors](#floors-of-this-machine) an event "
    "loop that only wakes; [profile, thread by thread](#profile-of-an-idle-agent), explained in "
    "[its own page](recovery.md#an-idle-agent)"
)
_MEMORY = "two thirds are a bare client of gRPC (its floor): [profile](recovery.md#an-idle-agent)"
_GROWS = "[over the number of jobs](#the-operator-over-the-number-of-jobs)"
_OPERATOR = f"the operator's processor time: [profile](#profile-of-the-operator-at-rest), {_GROWS}"
_RECORDS = f"what the operator knows of jobs and pods: {_GROWS}"
_TEE = "every line is read, marked and written by Python: the bare copy is its floor in [Processes](#processes)"
_FUNCTIONS = "forks of an interpreter that holds torch are most of it (its floor in [Processes](#processes))"
_THOUSAND = 1000
GOALS: tuple[Goal | ClusterGoal, ...] = (
    Goal("worker SIGKILLed → next training step of all ranks, DDP", "DDP, worker SIGKILLed", reason=_STEPS),
    Goal("2 nodes of 2 workers: commands → all workers running", "start 2x2", reason=_START),
    Goal("worker exits 1 → next round running, 3 nodes", "worker exits 1, 3x1", reason=_TRACE),
    Goal("a node joins → next round running", "agent joins", reason=_START),
    Goal("agent SIGKILLed → survivors' next round running", "agent SIGKILLed", reason=_TRACE),
    Goal("agent SIGTERMed → survivors' next round running", "agent SIGTERMed", reason=_TRACE),
    Goal("the same with workers that save for 20 s", "SIGTERM, 20 s to save", reason=_TRACE),
    Goal("rendezvous of 1,000 agents", "first round", _THOUSAND, reason=_CROWD),
    Goal("the same over mutual TLS, cold", "first round, mutual TLS, cold", _THOUSAND, reason=_CROWD),
    Goal("next round of 1,000 agents after a failure", "next round after a failure", _THOUSAND, reason=_CROWD),
    Goal("1,000 idle agents: etcd's processor", "idle: processor, etcd", _THOUSAND, reason=_KEEP_ALIVES),
    Goal("1,000 idle agents: processor of each", "idle: processor, a member", _THOUSAND, reason=_IDLE),
    Goal("8 functions started, torch preloaded", "8 functions with torch, preloaded", reason=_FUNCTIONS),
    Goal("tee of 1,000,000 lines, 2 ranks, none lost", "tee of 1,000,000 lines, 2 ranks, whole process", reason=_TEE),
    Goal("an idle agent: processor", "an idle agent: processor", reason=_IDLE),
    Goal("an idle agent: memory", "an idle agent: memory, resident", reason=_MEMORY),
    ClusterGoal(
        "on kind: worker crash → next round running", "worker SIGKILLed -> every worker of the next round started", 0.5
    ),
    ClusterGoal(
        "on kind: pod deleted → next round running", "kubectl delete pod -> every worker of the survivors started", 1.5
    ),
    ClusterGoal(
        "on kind: node stopped → next round running", "node killed -> every worker of the survivors started", 10.0
    ),
    Goal("operator, 1,000 jobs of 10 pods: memory at rest", "steady: memory", _THOUSAND, _RECORDS, grows=True),
    Goal("operator, 1,000 jobs of 10 pods: processor at rest", "steady: processor", _THOUSAND, _OPERATOR, grows=True),
    Goal("operator: applied → pods created", "one job more: applied → its pods created", _THOUSAND, reason=_OPERATOR),
)
_COLUMNS = ("what", "target", "ours p50", "n", "met", "peer", "p50", "how far, and why")
_LATENCY = re.compile(r"\| (?P<what>.+?) \| *(?P<took_s>[\d.]+) \|")


def latencies(page: str) -> dict[str, float]:
    """Return seconds by row of docs/latencies.md; for a repeated row the first."""
    found: dict[str, float] = {}
    for row in _LATENCY.finditer(page):
        found.setdefault(row["what"], float(row["took_s"]))
    return found


def table(series: Sequence[Series], on_a_cluster: Mapping[str, float]) -> list[str]:
    """Return Markdown: a row for each goal, also for those without a measurement."""
    rows = [_cluster_row(goal, on_a_cluster) if isinstance(goal, ClusterGoal) else _row(goal, series) for goal in GOALS]
    return [_cells(_COLUMNS), _cells(["---"] * len(_COLUMNS)), *map(_cells, rows)]


def _row(goal: Goal, series: Sequence[Series]) -> list[str]:
    ours = _of(goal, series, {OURS})
    if ours is None or ours.target is None:
        return [goal.what, "", "not measured in this run", *[""] * 5]
    peer = _of(goal, series, {each.side for each in series} - {OURS, FLOOR})
    met, far = _verdict(ours.p50, ours.target, goal.reason)
    if ours.p50 <= ours.target < ours.p99:
        far = f"its p99, {results.format_value(ours.p99, ours.unit)}, is x {ours.p99 / ours.target:.2f}; {goal.reason}"
    if ours.size != goal.size:
        met, far = f"{met}, at this size", "; ".join(filter(None, (_extrapolated(goal, series), far)))
    beside = ["", ""] if peer is None else [_sized(goal, peer, peer.side), results.format_value(peer.p50, peer.unit)]
    return [
        _sized(goal, ours, goal.what),
        results.format_value(ours.target, ours.unit),
        results.format_value(ours.p50, ours.unit),
        str(len(ours.samples)),
        met,
        *beside,
        far,
    ]


def _of(goal: Goal, series: Sequence[Series], sides: "set[str]") -> Series | None:
    """Return the series with the largest size up to the goal's."""
    own = [each for each in series if each.name == goal.name and each.side in sides]
    fitting = [each for each in own if (each.size or 0) <= (goal.size or 0)]
    return max(fitting, key=lambda each: each.size or 0, default=None)


def _extrapolated(goal: Goal, series: Sequence[Series]) -> str:
    """Return the value at the goal's size, by the straight line through all measured sizes."""
    own = [
        each for each in series if each.name == goal.name and each.side == OURS and each.size and each.p50 < math.inf
    ]
    if not goal.grows or goal.size is None or len(own) < ENOUGH:
        return ""
    expected, target = straight_line([(float(each.size or 0), each.p50) for each in own]).at(goal.size), own[0].target
    shown = (
        f"{results.format_value(expected, own[0].unit)} at {goal.size:,} by a straight line through {len(own)} sizes"
    )
    return shown if target is None or expected <= target else f"{shown}, x {expected / target:.2f}; {goal.reason}"


def _sized(goal: Goal, series: Series, text: str) -> str:
    """Return the text with the measured size, if it is not the goal's."""
    return text if series.size == goal.size else f"{text} (here {series.size} {results.counted(series)})"


def _cluster_row(goal: ClusterGoal, on_a_cluster: Mapping[str, float]) -> list[str]:
    took_s, limit = on_a_cluster.get(goal.name), results.format_value(goal.limit_s, "s")
    if took_s is None:
        return [goal.what, limit, "not in [its page](latencies.md)", *[""] * 5]
    met, far = _verdict(took_s, goal.limit_s, "see [its page](latencies.md)")
    shown = f"{results.format_value(took_s, 's')} ([its own run](latencies.md))"
    return [goal.what, limit, shown, "1", met, "", "", far]


def _verdict(value: float, target: float, why: str) -> tuple[str, str]:
    if value <= target:
        return "yes", ""
    return "**no**", f"x {value / target:.2f}; {why or 'not explained yet'}"


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
