"""The journal: what each node saw being executed, one JSON line per event, only ever appended.

It is the second witness beside the checkpoints: `proof.py` compares the two. LOCAL_RANK 0 of each node
writes it into CHECKPOINT_DIR. Its first line of a round repeats all that any node knew of the rounds
before, so that one surviving node is enough to tell the whole story.

A line is one write() and so is not torn by a kill; what a machine's crash left torn is passed over.
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
    """What the journals of one node tell."""

    attempts: tuple[Attempt, ...] = ()
    checkpoints: tuple[tuple[int, str], ...] = ()
    """Step and file name of each checkpoint that was written, in the order of writing."""


class Journal:
    """The journal of one node in one attempt. Use as a context manager."""

    def __init__(self, folder: Path, *, node: int, attempt: Attempt, before: Iterable[Attempt]) -> None:
        """Begin: say what is attempted and what came before."""
        self._attempt = attempt.number
        # Unbuffered: a line has left the process when its step is over, whatever happens next.
        self._file = (folder / f"node-{node}.journal").open("ab", buffering=0)
        self._append({"start": asdict(attempt), "before": [asdict(earlier) for earlier in before]})

    def step(self, step: int) -> None:
        """This step was executed."""
        self._append({"step": step})

    def checkpoint(self, step: int, path: Path) -> None:
        """The checkpoint of this step is on disk."""
        self._append({"checkpoint": step, "file": path.name})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _append(self, event: dict[str, Any]) -> None:
        # The line break in front ends whatever a crash may have left unfinished.
        self._file.write(b"\n" + json.dumps({"attempt": self._attempt, **event}).encode())


def read_journals(folder: Path) -> Witness:
    """All journals of a folder, put together: a node's number changes, and nodes may share a folder."""
    witnesses = [read_lines(path.read_text(errors="replace").split("\n")) for path in sorted(folder.glob("*.journal"))]
    return Witness(
        attempts=merge(witness.attempts for witness in witnesses),
        checkpoints=tuple(item for witness in witnesses for item in witness.checkpoints),
    )


def read_lines(lines: Iterable[str]) -> Witness:
    """What the lines of one journal tell."""
    attempts: dict[int, Attempt] = {}
    checkpoints: list[tuple[int, str]] = []
    for event in _events(lines):
        if "start" in event:
            told = [attempt_from(fields) for fields in event["before"]]
            merged = merge([attempts.values(), told, [attempt_from(event["start"])]])
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
    """The step of the newest checkpoint that was written here and whose file was not found damaged; 0 if none."""
    damaged = set(unusable)
    return max((step for step, name in witness.checkpoints if name not in damaged), default=0)


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in filter(None, lines):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            # Torn by a crash of the machine. If it mattered, the proof will miss its step.
            continue


def _extended(attempt: Attempt, event: dict[str, Any]) -> Attempt:
    if "checkpoint" in event:
        return replace(attempt, saved=max(attempt.saved, event["checkpoint"]))
    step, runs = event["step"], attempt.runs
    if runs and step == runs[-1][1] + 1:
        return replace(attempt, runs=(*runs[:-1], (runs[-1][0], step)))
    return replace(attempt, runs=(*runs, (step, step)))
