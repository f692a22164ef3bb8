"""One letter per worker, and the number of workers in each state.

The states are Pending, Starting, Running, Completed, Failed, sTopped (T), Unknown. Workers of a slot without a report
are pending before it takes part in a round. They are unknown if the agent of a member has become unreachable.
"""

import functools
from collections import Counter
from collections.abc import Iterable

from elasticjob_api.records import NodeReport, WorkerReport, WorkerState
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


def states_of(report: NodeReport) -> str:
    """Return the states of a node's workers, one letter each, by local rank."""
    return "".join([_letter(worker) for worker in report.workers])


def _letter(worker: WorkerReport) -> str:
    if worker.state is WorkerState.HEALTHY:  # the most frequent; an enum as a key costs ten times as much
        return "R"
    if worker.state is WorkerState.INIT:
        return "S" if worker.pid else "P"
    return _LETTERS[worker.state]


@functools.lru_cache(maxsize=16)
def same_states(letter: str, workers: int) -> str:
    """Return the same state for each of these workers; nodes share the text."""
    return letter * workers


@functools.lru_cache(maxsize=1024)
def final_states(ranks: str, *, succeeded: bool) -> str:
    """Return the states after the end of the job, when no worker runs any more."""
    if succeeded:
        return "C" * len(ranks)
    return "".join(letter if letter in "CF" else "T" for letter in ranks)


def count_states(nodes: Iterable[NodeStatus]) -> WorkerStates:
    """Return the number of workers in each state."""
    # Most nodes have the same states, which are counted once.
    counts: Counter[str] = Counter()
    for ranks, alike_nodes in Counter([node.ranks for node in nodes]).items():
        for letter in _FIELDS:
            counts[letter] += alike_nodes * ranks.count(letter)
    return WorkerStates(**{field: counts[letter] for letter, field in _FIELDS.items()})
