"""PURE: pods that are still Terminating long after their grace: their node may be dead, and nobody confirms their end.

Only the node says whether it is: it is looked at before a pod is deleted by force, and again after a while. A pod on
a node that is well is only slow.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.ledger import Ledger
from elasticjob_operator.pods import Pod

LOOK_AGAIN_S = 15.0
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True)
class Stuck:
    """Pods whose node to look at, and when the next one would be."""

    pods: tuple[Pod, ...]
    next_at_s: float | None


def stuck_pods(timeout_s: float, pods: Iterable[Pod], ledger: Ledger, now_s: float) -> Stuck:
    """The pods that are due; a timeout of 0 means never."""
    if not timeout_s:
        return Stuck((), None)
    asked = [(pod, _due_s(pod, timeout_s, ledger)) for pod in pods if pod.terminating and pod.node_name]
    due = [(pod, at_s) for pod, at_s in asked if at_s is not None]
    later = [at_s for _, at_s in due if at_s > now_s]
    return Stuck(tuple(pod for pod, at_s in due if at_s <= now_s), min(later, default=None))


def _due_s(pod: Pod, timeout_s: float, ledger: Ledger) -> float | None:
    if pod.grace_ends_s is None:
        return None
    looked_s = ledger.node_looked_s.get(pod.uid)
    at_s = pod.grace_ends_s + timeout_s
    return at_s if looked_s is None else max(at_s, looked_s + LOOK_AGAIN_S)


def why_dead(node: Object | None) -> str:
    """Why nothing of this node will ever confirm the end of a pod; empty if it may."""
    if node is None:
        return "is gone"
    if any(taint.get("key") == _OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or []):
        return "is out of service"
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    return "" if ready is not None and ready.get("status") == "True" else "is not ready"
