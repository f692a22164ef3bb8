"""The ranks of each pod, by a job's status, and the rank of each line of output."""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob.errors import NoLogs
from elasticjob_api import log_layout
from elasticjob_api.status import JobStatus, LastFailure, NodeStatus


@dataclass(frozen=True, slots=True)
class Ranks:
    """The global ranks of a pod's workers."""

    first: int
    count: int

    def __contains__(self, rank: int) -> bool:
        """Return whether a rank is one of them."""
        return self.first <= rank < self.first + self.count


def ranks_by_pod(status: JobStatus) -> dict[str, Ranks | None]:
    """Return every pod of the job, those of the round first and in order; None: the pod has no rank at present."""
    members = sorted((node for node in status.nodes if node.rank is not None), key=_rank)
    found: dict[str, Ranks | None] = {}
    first, expected = 0, 0
    for node in members:
        if node.rank != expected:  # the status was cut: later ranks cannot be counted
            return found
        found[node.pod_name] = Ranks(first, len(node.ranks))
        first, expected = first + len(node.ranks), expected + 1
    return found | {node.pod_name: None for node in status.nodes if node.rank is None and node.pod_name}


def pod_of(status: JobStatus, name: str, rank: int) -> str:
    """Return the pod of a rank; raise NoLogs."""
    pod_ranks = ranks_by_pod(status)
    found = next((pod for pod, ranks in pod_ranks.items() if ranks and rank in ranks), "")
    if found:
        return found
    if rank == 0 and status.master_pod:
        return status.master_pod
    ended = max((ranks.first + ranks.count for ranks in pod_ranks.values() if ranks), default=0)
    reason = f"it has ranks 0 to {ended - 1}" if ended else f"it is {status.phase} and no worker has a rank"
    if status.nodes_truncated:
        reason += "; its status has no room for more: read the pod's log with kubectl"
    raise NoLogs(f"no log of rank {rank} of the job {name}: {reason}")


def ranks_at_failure(status: JobStatus, failure: LastFailure) -> Ranks:
    """Return the ranks that the pod of the last failure had in its round."""
    sizes = [len(node.ranks) for node in status.nodes if node.pod_name == failure.pod_name]
    return Ranks(failure.rank - failure.local_rank, max(sizes, default=failure.local_rank + 1))


def rank_of_line(text: str, ranks: Ranks | None) -> tuple[int | None, str]:
    """Return the rank that wrote a line of a pod, and the line without its prefix; None for a line of the agent."""
    rank, bare = log_layout.split_line(text)
    if rank is None and ranks is not None and ranks.count == 1:
        rank = ranks.first
    return rank, bare


def pods_of(status: JobStatus, name: str, rank: int | None) -> Mapping[str, Ranks | None]:
    """Return the pods to read for one rank, or for all ranks."""
    pod_ranks = ranks_by_pod(status)
    if rank is None:
        return pod_ranks
    pod = pod_of(status, name, rank)
    return {pod: pod_ranks.get(pod)}


def _rank(node: NodeStatus) -> int:
    return node.rank if node.rank is not None else -1
