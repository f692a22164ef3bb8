"""PURE: a job's life as rounds and moments, from its status and its events; the timeline and `describe` tell it.

The rounds are those that the operator keeps in the status, with who took part, in milliseconds. A job whose status
has none (an older operator) gets them from its events, without who, and in seconds.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elasticjob_cli.views.text import moment

_ROUND = re.compile(r"round (\d+): (?:(\d+) nodes?, (\d+) workers?)(?:; after: (.*))?", re.DOTALL)
_ENDS_A_ROUND = frozenset({"WorkerFailed", "Restarting", "NodeLost", "Suspended", "Succeeded", "Failed"})
_OPENS_A_ROUND = frozenset({"WorkerFailed", "NodeLost", "ScaledUp", "ScaledDown", "Resumed"})
_EVENT_DELAY_S = 3.0
"""An event may come so long after what it tells: it is written with the status, which is batched."""
_FAILURES = frozenset(
    {"WorkerFailed", "NodeLost", "Failed", "Stalled", "RendezvousUnavailable", "AgentsUnreachable", "InvalidSpec"}
)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Something that happened."""

    time_s: float
    reason: str
    message: str
    warning: bool = False
    count: int = 1

    @property
    def is_failure(self) -> bool:
        """It is marked in the timeline."""
        return self.reason in _FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round; `slots` is empty when nobody knows who took part."""

    number: int
    start_s: float
    end_s: float | None = None
    cause: str = ""
    message: str = ""
    nodes: int = 0
    workers: int = 0
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """All of it; times are seconds since 1970."""

    name: str
    phase: str
    start_s: float
    end_s: float
    """Of a job that lives: now."""
    live: bool
    rounds: Sequence[Round] = ()
    moments: Sequence[HistoryEntry] = ()
    exact: bool = True
    """The rounds are the operator's own, in milliseconds."""
    restarts: int = 0
    losses: int = 0

    @property
    def in_rounds_s(self) -> float:
        """Seconds in which a round was active."""
        return sum(max(0.0, self.end_of(each) - max(each.start_s, self.start_s)) for each in self.rounds)

    def end_of(self, one: Round) -> float:
        """When it ended, or the end of what is told."""
        return self.end_s if one.end_s is None else one.end_s

    def gaps(self) -> list[float]:
        """Before each round: seconds since the one before ended, or since the beginning."""
        ends = [self.start_s, *(self.end_of(each) for each in self.rounds)]
        return [max(0.0, each.start_s - ended) for each, ended in zip(self.rounds, ends, strict=False)]

    def failures(self) -> list[tuple[float, str]]:
        """When what failed: by what opened each round, and by those events that tell of something else."""
        ends = [self.start_s, *(self.end_of(each) for each in self.rounds)]
        pairs = zip(self.rounds, ends, strict=False)
        found = [(ended, f"{each.cause}: {each.message}") for each, ended in pairs if each.cause in _FAILURES]
        known = [at_s for at_s, _ in found]
        for each in self.moments:
            told = any(at_s - 1.0 < each.time_s < at_s + _EVENT_DELAY_S for at_s in known)
            if each.is_failure and not told:
                found.append((each.time_s, f"{each.reason}: {each.message}"))
        return sorted(found)

    def slots(self) -> tuple[int, ...]:
        """Every slot that took part at some time."""
        return tuple(sorted({slot for each in self.rounds for slot in each.slots}))


def job_history(job: Mapping[str, Any], moments: Iterable[HistoryEntry], *, now_s: float) -> JobHistory:
    """The life of a job as its object and its events tell it."""
    meta, status = job.get("metadata") or {}, job.get("status") or {}
    told = sorted(moments, key=lambda each: each.time_s)
    kept = tuple(_kept(each) for each in status.get("rounds") or ())
    rounds = kept or _from_moments(told)
    ended_s = moment(status.get("completionTime"))
    created_s = moment(meta.get("creationTimestamp"))
    known = [each.start_s for each in rounds] + [each.time_s for each in told]
    start_s = min([*known, *([created_s] if created_s is not None else [])], default=now_s)
    last_s = max([*known, *(each.end_s for each in rounds if each.end_s is not None)], default=start_s)
    return JobHistory(
        name=str(meta.get("name", "")),
        phase=str(status.get("phase") or "Pending"),
        start_s=start_s,
        end_s=now_s if ended_s is None else max(ended_s, last_s),
        live=ended_s is None,
        rounds=_closed(rounds, None if ended_s is None else max(ended_s, last_s)),
        moments=tuple(told),
        exact=bool(kept),
        restarts=int(status.get("restarts") or 0),
        losses=int(status.get("nodeLosses") or 0),
    )


def _kept(record: Mapping[str, Any]) -> Round:
    return Round(
        number=int(record.get("round") or 0),
        start_s=moment(record.get("startTime")) or 0.0,
        end_s=moment(record.get("endTime")),
        cause=str(record.get("cause") or ""),
        message=str(record.get("message") or ""),
        nodes=int(record.get("nodes") or 0),
        workers=int(record.get("workers") or 0),
        slots=parse_slots(str(record.get("slots") or "")),
    )


def parse_slots(text: str) -> tuple[int, ...]:
    """`0-2,5` → 0, 1, 2, 5, in this order; what was cut off (`...`) is not there."""
    found: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def _from_moments(moments: Iterable[HistoryEntry]) -> tuple[Round, ...]:
    rounds: list[Round] = []
    cause = ""
    for each in moments:
        cause = each.message if each.reason in _OPENS_A_ROUND else cause
        running = bool(rounds) and rounds[-1].end_s is None
        if running and each.reason in _ENDS_A_ROUND:
            rounds[-1] = replace(rounds[-1], end_s=each.time_s)
        if each.reason == "RendezvousCompleted" and (found := _ROUND.match(each.message)):
            if rounds and rounds[-1].end_s is None:
                rounds[-1] = replace(rounds[-1], end_s=each.time_s)
            number, nodes, workers = (int(part or 0) for part in found.groups()[:3])
            said = found.group(4) or cause
            rounds.append(Round(number=number, start_s=each.time_s, nodes=nodes, workers=workers, message=said))
            cause = ""
    return tuple(rounds)


def _closed(rounds: Sequence[Round], end_s: float | None) -> tuple[Round, ...]:
    """No round goes on after the job's end, nor after the next one's beginning."""
    starts = [*(each.start_s for each in rounds[1:]), end_s]
    return tuple(
        replace(each, end_s=limit) if each.end_s is None and limit is not None else each
        for each, limit in zip(rounds, starts, strict=False)
    )
