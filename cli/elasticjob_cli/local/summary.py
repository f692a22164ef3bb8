"""The end of a run as text: a table of ranks, the counters, the root cause, from the last known state."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elasticjob_api import constants
from elasticjob_api.failure_text import describe_last_failure
from elasticjob_api.one_line import one_line
from elasticjob_cli.local.run_view import ReportedWorker, RunView
from elasticjob_cli.views.advice import command_cure
from elasticjob_cli.views.keep_text import persisted_sentences
from elasticjob_cli.views.last_failure import failure_text
from elasticjob_cli.views.text import align, pluralize

_MAX_ROWS = 64
_SUCCEEDED = "C"
_STATES = {
    "P": "pending",
    "S": "starting",
    "R": "running",
    _SUCCEEDED: "succeeded",
    "F": "failed",
    "T": "stopped",
    "U": "unknown",
}
_ENDED_BY_A_FAILURE = {constants.FailedReason.MAX_RESTARTS, constants.FailedReason.FAIL_JOB_RULE}
"""Reasons of a failed job that its last failure caused."""
_HEAD = ("RANK", "NODE", "POD", "STATE", "RESTARTS", "PID", "EXIT")


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one rank."""

    rank: int | None
    cells: tuple[str, ...]


def rank_table(view: RunView) -> str:
    """Return a line for each rank of the last round, in order; empty for a job without nodes, as when suspended."""
    rows = sorted(_rows(view), key=lambda row: (row.rank is None, row.rank or 0))
    if not rows:
        return ""
    lines = align([_HEAD, *(row.cells for row in rows[:_MAX_ROWS])], gap="  ")
    more = len(rows) - _MAX_ROWS
    return "\n".join([*lines, *([f"... and {more} more"] if more > 0 else [])])


def _rows(view: RunView) -> Iterator[Row]:
    reported = {(worker.pod, worker.report.rank): worker for worker in view.workers()}
    nodes: Sequence[Mapping[str, Any]] = view.status.get("nodes") or []
    base = 0
    for node in sorted(nodes, key=_by_rank):
        letters = node.get("ranks") or ""
        for i, letter in enumerate(letters):
            rank = None if node.get("rank") is None else base + i
            worker = None if rank is None else reported.get((node["podName"], rank))
            yield Row(rank, _cells(node, rank, letter, worker))
        base += 0 if node.get("rank") is None else len(letters)


def _by_rank(node: Mapping[str, Any]) -> tuple[bool, int]:
    rank = node.get("rank")
    return rank is None, rank or 0


def _cells(node: Mapping[str, Any], rank: int | None, letter: str, worker: ReportedWorker | None) -> tuple[str, ...]:
    restarts = pid = code = None
    if worker is not None:
        restarts, pid, code = worker.restarts, worker.report.pid or None, worker.report.exit_code
    if letter == _SUCCEEDED:
        code = 0  # an agent may end before it reports the end of its last worker
    known = (_format_number(restarts), _format_number(pid), describe_code(code))
    identity = ("-" if rank is None else str(rank), node.get("nodeName") or "-", node.get("podName") or "-")
    return (*identity, _STATES.get(letter, letter), *known)


def _format_number(number: int | None) -> str:
    return "-" if number is None else str(number)


def describe_code(code: int | None) -> str:
    """Return an exit code as in `subprocess`: a signal by its name, `-` for none."""
    if code is None:
        return "-"
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def summary(view: RunView, *, elapsed_s: float, logs: Path) -> str:
    """Return phase and counters; of a failed job also limit, root cause and log; of another one the last failure."""
    status = view.status
    counts = ", ".join(
        [
            pluralize(status.get("restarts", 0), "restart"),
            pluralize(status.get("nodeLosses", 0), "node loss", "node losses"),
            pluralize(status.get("rendezvousRound", 0), "round"),
            f"{elapsed_s:.1f} s",
        ]
    )
    lines = [f"{status.get('phase') or 'Pending'}: {counts}"]
    if status.get("phase") == constants.Phase.FAILED:
        lines.append(f"why: {status.get('reason')}: {_describe_consequence(view)}")
    if failure := view.last_failure:
        kind = "root cause" if status.get("reason") in _ENDED_BY_A_FAILURE else "last failure"
        lines.append(f"{kind}: {failure_text(failure)}")
        if status.get("phase") == constants.Phase.FAILED:
            lines.append(f"its log: {logs / failure.pod_name}")
            if cure := command_cure(view.job.get("spec") or {}, status):
                lines.append(f"cure: {cure}")
    return "\n".join(lines)


def persist_lines(view: RunView, *, now_s: float) -> Iterator[tuple[str, bool]]:
    """Yield what an ended job has in `spec.keep.persistTo`; with True what it has lost, or why."""
    directory = ((view.job.get("spec") or {}).get("keep") or {}).get("persistTo")
    if directory and view.finished:
        kept = view.status.get("keep") or {}
        for number, line in enumerate(persisted_sentences(kept, one_line(str(directory)), now_s=now_s)):
            yield line, number > 0 or (kept.get("persistedStep") is None and kept.get("step") is not None)


def _describe_consequence(view: RunView) -> str:
    """Return the verdict, without its cause if the summary has that in its own line."""
    message, failure = str(view.status.get("message", "")), view.last_failure
    return message if failure is None else message.removeprefix(f"{one_line(describe_last_failure(failure))}; ")
