"""PURE: which pod has which ranks, by a job's status, and whose line a line is.

A pod with several workers marks each line with `[rank<n>] `; the only worker of a pod has the console for itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob.errors import NoLogs
from elasticjob_api.status import JobStatus, NodeStatus

_MARKED = re.compile(r"\[rank(\d+)\] ?")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The global ranks of a pod's workers."""

    first: int
    count: int

    def __contains__(self, rank: int) -> bool:
        """Whether one of them is this."""
        return self.first <= rank < self.first + self.count


def ranks_by_pod(status: JobStatus) -> dict[str, Ranks | None]:
    """Every pod of the job, those of the round first and in order; None: it has no rank, now."""
    members = sorted((node for node in status.nodes if node.rank is not None), key=_rank)
    found: dict[str, Ranks | None] = {}
    first, expected = 0, 0
    for node in members:
        if node.rank != expected:  # nodes were cut from the status: what follows cannot be counted
            return found
        found[node.pod_name] = Ranks(first, len(node.ranks))
        first, expected = first + len(node.ranks), expected + 1
    return found | {node.pod_name: None for node in status.nodes if node.rank is None and node.pod_name}


def pod_of(status: JobStatus, name: str, rank: int) -> str:
    """The pod of one rank; raises NoLogs."""
    placed = ranks_by_pod(status)
    found = next((pod for pod, ranks in placed.items() if ranks and rank in ranks), "")
    if found:
        return found
    if rank == 0 and status.master_pod:
        return status.master_pod
    ended = max((ranks.first + ranks.count for ranks in placed.values() if ranks), default=0)
    why = f"it has ranks 0 to {ended - 1}" if ended else f"it is {status.phase} and no worker has a rank"
    if status.nodes_truncated:
        why += ", of those that its status has room for: read the pod's log with kubectl"
    raise NoLogs(f"no log of rank {rank} of the job {name}: {why}")


def rank_of_line(text: str, ranks: Ranks | None) -> tuple[int | None, str]:
    """The rank that wrote a line of a pod, and the line without its mark; None: a line of the agent's."""
    if marked := _MARKED.match(text):
        return int(marked.group(1)), text[marked.end() :]
    return (ranks.first if ranks is not None and ranks.count == 1 else None), text


def pods_of(status: JobStatus, name: str, rank: int | None) -> Mapping[str, Ranks | None]:
    """The pods to read for one rank, or for all."""
    placed = ranks_by_pod(status)
    if rank is None:
        return placed
    pod = pod_of(status, name, rank)
    return {pod: placed.get(pod)}


def _rank(node: NodeStatus) -> int:
    return node.rank if node.rank is not None else -1
