"""The events of a job's journal, by rounds: which steps were published in each, and which one it restored. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.persist.layout import parse_whole
from elasticjob_api.kept_steps import KeptStep, Lineage

Event = dict[str, Any]


@dataclass(slots=True)
class PublishedStep:
    """One step of one lineage, as its workers published it."""

    states: set[str] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    """The parts whose rename began."""
    done: set[int] = field(default_factory=set)
    """The parts whose rename has returned."""
    at: float = 0.0
    """The time of the last part's rename."""


def restored_step(running: Event) -> KeptStep | None:
    """Return the step that a worker restored, by the name of its directory in memory or on disk."""
    text = running["restored"]
    if (persisted := parse_whole(text)) is not None:
        return persisted.step
    return KeptStep.parse(text) if text else None


@dataclass(slots=True)
class Round:
    """The workers of one active state, and what they published."""

    lineage: Lineage
    began: float
    running: list[Event] = field(default_factory=list)
    steps: dict[KeptStep, PublishedStep] = field(default_factory=dict)
    newest: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Rank → its newest step, and whether the rename has returned."""
    published_by: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """Node → index and count of the parts that its workers publish."""

    @property
    def restored(self) -> KeptStep | None:
        """The step that its workers restored; they are checked elsewhere to be of one mind."""
        return restored_step(self.running[0]) if self.running else None

    @property
    def is_from_disk(self) -> bool:
        """Whether some of its workers read a step in the shared directory."""
        return any(parse_whole(event["restored"]) is not None for event in self.running)

    def whole_steps(self) -> list[KeptStep]:
        """Return the steps of which all parts were published."""
        return [step for step, found in self.steps.items() if found.done == set(range(step.parts))]


@dataclass(slots=True)
class Journal:
    """All events of a job so far."""

    rounds: dict[Lineage, Round] = field(default_factory=dict)
    states: list[Event] = field(default_factory=list)
    reports: list[Event] = field(default_factory=list)
    faults: list[Event] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    without_keeper: list[Event] = field(default_factory=list)
    """The workers that ran on a node that kept nothing in that round."""
    whole: dict[KeptStep, float] = field(default_factory=dict)
    """Step → when it was first seen whole in the shared directory."""
    newest_t: float = 0.0
    """The time of the last event of a worker."""

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event["event"]:
            case "state":
                self.states.append(event)
            case "report":
                self.reports.append(event)
            case "fault":
                self.faults.append(event)
            case "whole":
                self.whole.setdefault(KeptStep.parse(event["step"]), event["t"])
            case "violation":
                self.violations.append(f"{event['node']}, rank {event['rank']}: {event['text']}")
            case "running" | "publishing" | "published":
                self._add_of_worker(event)

    def in_order(self) -> list[Round]:
        """Return all rounds, the oldest first."""
        return sorted(self.rounds.values(), key=lambda each: (each.lineage.round, each.began))

    def _add_of_worker(self, event: Event) -> None:
        self.newest_t = max(self.newest_t, event["t"])
        if not event["lineage"]:  # a node whose memory cannot be used: it publishes nothing
            self.without_keeper.append(event)
            return
        lineage = Lineage.parse(event["lineage"])
        known = self.rounds.setdefault(lineage, Round(lineage, event["t"]))
        known.began = min(known.began, event["t"])
        if event["event"] == "running":
            known.running.append(event)
            return
        step = KeptStep(lineage, event["step"], event["parts"])
        found = known.steps.setdefault(step, PublishedStep())
        found.states.add(event["state"])
        is_done = event["event"] == "published"
        (found.done if is_done else found.begun).add(event["index"])
        found.at = max(found.at, event["t"])
        known.newest[event["rank"]] = event["step"], is_done
        known.published_by.setdefault(event["node"], set()).add((event["index"], event["parts"]))


class JournalReader:
    """Reads what is new in the file of a journal."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""
        self.journal = Journal()

    def read(self) -> Journal:
        """Return the journal with all whole lines so far."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for event in _parse(lines):
            self.journal.add(event)
        return self.journal

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(path: Path) -> Journal:
    """Return the whole journal of a job."""
    reader = JournalReader(path)
    try:
        return reader.read()
    finally:
        reader.close()


def _parse(lines: Iterable[bytes]) -> list[Event]:
    return [json.loads(line) for line in lines if line]
