"""Stuck pods: still Terminating long after their grace period, perhaps because no kubelet can confirm their end.

Their node may be dead, which only the Node object shows. It is read before a pod is force-deleted, and again after a
while. A pod on a healthy node is only slow.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod

CHECK_AGAIN_S = 15.0
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True)
class StuckPods:
    """The pods whose node to check now, and the seconds until the next one is due."""

    pods: tuple[Pod, ...]
    next_in_s: float | None


def stuck_pods(
    timeout_s: float, pods: Iterable[Pod], job_state: JobState, *, now_s: float, monotonic_s: float
) -> StuckPods:
    """Return the pods that are due; a timeout of 0 disables this.

    `now_s` is wall clock time, because the API server sets the end of a grace period. The times of node checks are
    monotonic.
    """
    if not timeout_s:
        return StuckPods((), None)
    due: list[tuple[Pod, float]] = []
    for pod in pods:
        if pod.terminating and pod.node_name and pod.grace_ends_s is not None:
            checked_s = job_state.node_checked_s.get(pod.uid, float("-inf"))
            due.append((pod, max(pod.grace_ends_s + timeout_s - now_s, checked_s + CHECK_AGAIN_S - monotonic_s)))
    later = [in_s for _, in_s in due if in_s > 0]
    return StuckPods(tuple(pod for pod, in_s in due if in_s <= 0), min(later, default=None))


def proof_of_death(node: Object | None, *, only_proof: bool = False) -> str:
    """Return the reason why this node will never confirm the end of a pod; empty if it may still do so.

    With `only_proof` a node that is not ready does not count: its kubelet may be cut off while its pods run.
    """
    if node is None:
        return "is gone"
    if any(taint.get("key") == _OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or []):
        return "is out of service"
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    is_ready = ready is not None and ready.get("status") == "True"
    return "" if is_ready or only_proof else "is not ready"
