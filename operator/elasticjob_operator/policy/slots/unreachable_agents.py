"""Which running pods are left alone although their agents are silent: too many fell silent at once.

A silent agent is one whose lease has run out. That is no proof: the agent may be cut off from etcd while its workers
train. One silent agent is acted upon after lostPodTimeoutSeconds. Several that fall silent within one lease time are
evidence about the network, about etcd or about this operator, as in the node lifecycle controller when a whole zone
looks dead. Nothing is replaced on account of such a silence. Positive evidence still acts: a pod that is gone, or
that failed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from elasticjob_operator.model.pod import Pod

MIN_AGENTS = 2
SHARE_OF_JOB = 0.5
SHARE_OF_INSTALLATION = 0.3
CHECK_AGAIN_S = 30.0
"""So often pods that are left alone are looked at again."""

Installation = Callable[[float, float], float]
"""The share of all agents of this installation that fell silent between two moments; 0 if fewer than two did."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A running pod without a live agent."""

    since_s: float
    domain: str
    """What can take it away alone: its node if that is not ready, else the pod itself. Silences of one are one."""


def silences(since_s: Mapping[str, float], pods: Mapping[str, Pod]) -> dict[str, Silence]:
    """The silence of each pod (uid) of `since_s`; `pods` are by name."""
    by_uid = {pod.uid: pod for pod in pods.values() if pod.uid in since_s}
    return {uid: Silence(at_s, failure_domain(by_uid.get(uid), uid)) for uid, at_s in since_s.items()}


def failure_domain(pod: Pod | None, uid: str) -> str:
    """The pod's node once Kubernetes has marked the pod as not ready: then the node explains the silence."""
    is_unready = pod is not None and bool(pod.node_name) and pod.conditions.get("Ready") == "False"
    return f"node {pod.node_name}" if pod is not None and is_unready else uid


def unreachable_pods(
    silent: Mapping[str, Silence], *, agents: int, lease_s: float, installation: Installation
) -> frozenset[str]:
    """The uids of silent pods that are left alone; `agents` is how many agents the job should have."""
    moments = sorted({silence.domain: silence.since_s for silence in _newest_first(silent.values())}.values())
    fewest = max(MIN_AGENTS, agents * SHARE_OF_JOB)
    crowds = [begin_s for n, begin_s in enumerate(moments) if bisect_right(moments, begin_s + lease_s) - n >= fewest]

    def is_one_of_many(since_s: float) -> bool:
        nearest = bisect_right(crowds, since_s)  # the last crowd that began before
        if nearest and since_s <= crowds[nearest - 1] + lease_s:
            return True
        return installation(since_s - lease_s, since_s + lease_s) >= SHARE_OF_INSTALLATION

    return frozenset(uid for uid, silence in silent.items() if is_one_of_many(silence.since_s))


def _newest_first(silent: Iterable[Silence]) -> list[Silence]:
    return sorted(silent, key=lambda silence: -silence.since_s)


def is_confirmed(before: frozenset[str], now: frozenset[str], silent: Mapping[str, Silence]) -> frozenset[str]:
    """The pods that are doubted no more, though they are still silent, and no dead node explains it.

    Others of them have come back, so these may be about to: their silence counts from now.
    """
    return frozenset(uid for uid in before - now if uid in silent and silent[uid].domain == uid)
