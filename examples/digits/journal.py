"""The journal: the steps that each node executed, one JSON line per event, append-only.

It is a second record beside the checkpoints: `proof.py` compares the two. LOCAL_RANK 0 of each node writes it into
CHECKPOINT_DIR. Its first line of a round repeats the earlier rounds that any node knew. So one surviving node has the
whole history.

A line is one write() and so is not torn by a kill; a line that a machine's crash has torn is skipped.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from proof import Attempt, merge


@dataclass(frozen=True, slots=True)
class Witness:
    """The content of the journals of one node."""

    attempts: tuple[Attempt, ...] = ()
    checkpoints: tuple[tuple[int, str], ...] = ()
    """Step and file name of each checkpoint that was written, in the order of writing."""


class Journal:
    """The journal of one node in one attempt. Use as a context manager."""

    def __init__(self, folder: Path, *, node: int, attempt: Attempt, before: Iterable[Attempt]) -> None:
        """Write the beginning of an attempt, with the earlier ones."""
        self._attempt = attempt.number
        # Unbuffered: a line has left the process when its step is over, whatever happens next.
        self._file = (folder / f"node-{node}.journal").open("ab", buffering=0)
        self._append({"start": asdict(attempt), "before": [asdict(earlier) for earlier in before]})

    def step(self, step: int) -> None:
        """Record that this step was executed."""
        self._append({"step": step})

    def checkpoint(self, step: int, path: Path) -> None:
        """Record that the checkpoint of this step is on disk."""
        self._append({"checkpoint": step, "file": path.name})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _append(self, event: dict[str, Any]) -> None:
        # The line break in front ends a line that a crash may have left incomplete.
        self._file.write(b"\n" + json.dumps({"attempt": self._attempt, **event}).encode())


def read_journals(folder: Path) -> Witness:
    """Return all journals of a folder, merged: a node's number changes, and nodes may share a folder."""
    witnesses = [read_lines(path.read_text(errors="replace").split("\n")) for path in sorted(folder.glob("*.journal"))]
    return Witness(
        attempts=merge(witness.attempts for witness in witnesses),
        checkpoints=tuple(item for witness in witnesses for item in witness.checkpoints),
    )


def read_lines(lines: Iterable[str]) -> Witness:
    """Return the content of one journal."""
    attempts: dict[int, Attempt] = {}
    checkpoints: list[tuple[int, str]] = []
    for event in _events(lines):
        if "start" in event:
            before = [attempt_from(fields) for fields in event["before"]]
            merged = merge([attempts.values(), before, [attempt_from(event["start"])]])
            attempts = {attempt.number: attempt for attempt in merged}
        elif event["attempt"] in attempts:
            attempts[event["attempt"]] = _extended(attempts[event["attempt"]], event)
            if "checkpoint" in event:
                checkpoints.append((event["checkpoint"], event["file"]))
    return Witness(tuple(attempts.values()), tuple(checkpoints))


def attempt_from(fields: dict[str, Any]) -> Attempt:
    """Read an attempt back from JSON."""
    return Attempt(**{**fields, "runs": tuple((first, last) for first, last in fields["runs"])})


def newest_usable(witness: Witness, unusable: Iterable[str]) -> int:
    """Return the step of the newest checkpoint that was written here and is not known as damaged; 0 if none."""
    damaged = set(unusable)
    return max((step for step, name in witness.checkpoints if name not in damaged), default=0)


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in filter(None, lines):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            # A crash of the machine tore it. If it mattered, the proof will miss its step.
            continue


def _extended(attempt: Attempt, event: dict[str, Any]) -> Attempt:
    if "checkpoint" in event:
        return replace(attempt, saved=max(attempt.saved, event["checkpoint"]))
    step, runs = event["step"], attempt.runs
    if runs and step == runs[-1][1] + 1:
        return replace(attempt, runs=(*runs[:-1], (runs[-1][0], step)))
    return replace(attempt, runs=(*runs, (step, step)))
