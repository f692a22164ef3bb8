"""PURE: one letter per worker, and how many workers have which.

Pending, Starting, Running, Completed, Failed, sTopped (T), Unknown. A slot without a report counts its workers
as pending before it takes part in a round, and as unknown when its agent fell silent in one.
"""

from collections import Counter
from collections.abc import Iterable

from elasticjob_api.records import Report, WorkerReport, WorkerState
from elasticjob_api.status import NodeStatus, WorkerStates

_LETTERS = {
    WorkerState.HEALTHY: "R",
    WorkerState.SUCCEEDED: "C",
    WorkerState.FAILED: "F",
    WorkerState.UNHEALTHY: "F",
    WorkerState.STOPPED: "T",
    WorkerState.UNKNOWN: "U",
}
_FIELDS = {
    "P": "pending",
    "S": "starting",
    "R": "running",
    "C": "succeeded",
    "F": "failed",
    "T": "stopped",
    "U": "unknown",
}


def letters(report: Report) -> str:
    """The workers of one node, by local rank."""
    return "".join(_letter(worker) for worker in report.workers)


def _letter(worker: WorkerReport) -> str:
    if worker.state is WorkerState.INIT:
        return "S" if worker.pid else "P"
    return _LETTERS[worker.state]


def settled(ranks: str, *, succeeded: bool) -> str:
    """What the letters come to once the job has ended: nothing runs any more."""
    if succeeded:
        return "C" * len(ranks)
    return "".join(letter if letter in "CF" else "T" for letter in ranks)


def count(nodes: Iterable[NodeStatus]) -> WorkerStates:
    """How many workers are in which state."""
    counts = Counter(letter for node in nodes for letter in node.ranks)
    return WorkerStates(**{field: counts[letter] for letter, field in _FIELDS.items()})
