"""The history of a job as rounds and events, from its status and its events, for the timeline and `describe`.

The status has the last rounds with their slots, in milliseconds. A job that never ran has none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elasticjob_api.slot_ranges import parse_slots
from elasticjob_cli.views.text import parse_time

_EVENT_EARLY_S = 1.0
"""Seconds by which an event may seem to be early: its time has whole seconds, and that of a round has milliseconds."""
_FAILURES = frozenset(
    {"WorkerFailed", "NodeLost", "Failed", "Stalled", "RendezvousUnavailable", "AgentsUnreachable", "InvalidSpec"}
)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event of a job."""

    time_s: float
    reason: str
    message: str
    warning: bool = False
    count: int = 1

    @property
    def is_failure(self) -> bool:
        """Whether the timeline marks it as a failure."""
        return self.reason in _FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round; `slots` is empty if they are unknown."""

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
    """The history of a job; times are seconds since 1970."""

    name: str
    phase: str
    start_s: float
    end_s: float
    """The present for a job that has not ended."""
    live: bool
    rounds: Sequence[Round] = ()
    history_entries: Sequence[HistoryEntry] = ()
    restarts: int = 0
    losses: int = 0

    @property
    def in_rounds_s(self) -> float:
        """Seconds in which a round was active."""
        return sum(max(0.0, self.end_of(each) - max(each.start_s, self.start_s)) for each in self.rounds)

    def end_of(self, one: Round) -> float:
        """Return the end of a round, or of the history for a round without an end."""
        return self.end_s if one.end_s is None else one.end_s

    def gaps(self) -> list[float]:
        """Return for each round the seconds since the end of the round before, or since the job began."""
        ends = [self.start_s, *(self.end_of(each) for each in self.rounds)]
        return [max(0.0, each.start_s - ended) for each, ended in zip(self.rounds, ends, strict=False)]

    def failures(self) -> list[tuple[float, str]]:
        """Return time and text of each failure: the causes of rounds, and the events about other failures."""
        ends = [self.start_s, *(self.end_of(each) for each in self.rounds)]
        opened = [(ended, each) for each, ended in zip(self.rounds, ends, strict=False) if each.cause in _FAILURES]
        others = [each for each in self.history_entries if each.is_failure and not self._is_cause(each, opened)]
        found = [(ended, f"{each.cause}: {each.message}") for ended, each in opened]
        return sorted([*found, *((each.time_s, f"{each.reason}: {each.message}") for each in others)])

    def _is_cause(self, event: HistoryEntry, opened: Iterable[tuple[float, Round]]) -> bool:
        """Return whether an event is about the failure that opened one of these rounds; each is after its cause."""
        at_s = event.time_s + _EVENT_EARLY_S
        return any(ended <= at_s < self.end_of(each) for ended, each in opened if each.cause == event.reason)

    def slots(self) -> tuple[int, ...]:
        """Return every slot that was in some round."""
        return tuple(sorted({slot for each in self.rounds for slot in each.slots}))


def job_history(job: Mapping[str, Any], history_entries: Iterable[HistoryEntry], *, now_s: float) -> JobHistory:
    """Return the history of a job from its object and its events."""
    meta, status = job.get("metadata") or {}, job.get("status") or {}
    entries = sorted(history_entries, key=lambda each: each.time_s)
    rounds = tuple(_round(each) for each in status.get("rounds") or ())
    ended_s = parse_time(status.get("completionTime"))
    created_s = parse_time(meta.get("creationTimestamp"))
    known = [each.start_s for each in rounds] + [each.time_s for each in entries]
    start_s = min([*known, *([created_s] if created_s is not None else [])], default=now_s)
    last_s = max([*known, *(each.end_s for each in rounds if each.end_s is not None)], default=start_s)
    return JobHistory(
        name=str(meta.get("name", "")),
        phase=str(status.get("phase") or "Pending"),
        start_s=start_s,
        end_s=now_s if ended_s is None else max(ended_s, last_s),
        live=ended_s is None,
        rounds=_closed(rounds, None if ended_s is None else max(ended_s, last_s)),
        history_entries=tuple(entries),
        restarts=int(status.get("restarts") or 0),
        losses=int(status.get("nodeLosses") or 0),
    )


def _round(record: Mapping[str, Any]) -> Round:
    return Round(
        number=int(record.get("round") or 0),
        start_s=parse_time(record.get("startTime")) or 0.0,
        end_s=parse_time(record.get("endTime")),
        cause=str(record.get("cause") or ""),
        message=str(record.get("message") or ""),
        nodes=int(record.get("nodes") or 0),
        workers=int(record.get("workers") or 0),
        slots=tuple(parse_slots(str(record.get("slots") or ""))),
    )


def _closed(rounds: Sequence[Round], end_s: float | None) -> tuple[Round, ...]:
    """Return the rounds with an end for each that was followed by another round or by the end of the job."""
    starts = [*(each.start_s for each in rounds[1:]), end_s]
    return tuple(
        replace(each, end_s=limit) if each.end_s is None and limit is not None else each
        for each, limit in zip(rounds, starts, strict=False)
    )
