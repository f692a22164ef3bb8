"""Running pods that are exempt from replacement, because too many agents became unreachable at once.

An agent is unreachable if its lease has expired. That does not prove its end: it may be cut off from etcd while its
workers train. A pod with a single unreachable agent is replaced after lostPodTimeoutSeconds. If several agents become
unreachable within one lease time, the network, etcd or this operator is the likelier cause. No pod is replaced then,
as in Kubernetes' node lifecycle controller when a whole zone looks dead. A pod that is gone or has failed is still
replaced.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from elasticjob_operator.model.pod import Pod

MIN_AGENTS = 2
SHARE_OF_JOB = 0.5
SHARE_OF_INSTALLATION = 0.3
CHECK_AGAIN_S = 30.0
"""Seconds between two checks of exempt pods."""

Installation = Callable[[float, float], float]
"""Returns the share of the installation's agents that became silent between two times; 0 if fewer than two did."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A running pod without a live agent."""

    since_s: float
    domain: str
    """The failure domain: the pod's node if it explains the silence, else the pod. One domain counts as one silence."""


def silences(since_s: Mapping[str, float], pods: Mapping[str, Pod]) -> dict[str, Silence]:
    """Return the silence of each pod (uid) in `since_s`; `pods` are by name."""
    by_uid = {pod.uid: pod for pod in pods.values() if pod.uid in since_s}
    return {uid: Silence(at_s, failure_domain(by_uid.get(uid), uid)) for uid, at_s in since_s.items()}


def failure_domain(pod: Pod | None, uid: str) -> str:
    """Return the pod's failure domain: its node if Kubernetes has marked the pod as not ready, else the pod itself."""
    is_unready = pod is not None and bool(pod.node_name) and pod.conditions.get("Ready") == "False"
    return f"node {pod.node_name}" if pod is not None and is_unready else uid


def unreachable_pods(
    silent: Mapping[str, Silence], *, agents: int, lease_s: float, installation: Installation
) -> frozenset[str]:
    """Return the uids of the pods that are exempt.

    Args:
        silent: uid → silence of each running pod without a live agent.
        agents: the number of agents that the job should have.
        lease_s: the lease time of the job's agents.
        installation: the share of all agents of the installation that became unreachable in an interval.
    """
    moments = sorted({silence.domain: silence.since_s for silence in _newest_first(silent.values())}.values())
    fewest = max(MIN_AGENTS, agents * SHARE_OF_JOB)
    groups = [begin_s for n, begin_s in enumerate(moments) if bisect_right(moments, begin_s + lease_s) - n >= fewest]

    def is_one_of_many(since_s: float) -> bool:
        nearest = bisect_right(groups, since_s)  # the last group that began before
        if nearest and since_s <= groups[nearest - 1] + lease_s:
            return True
        return installation(since_s - lease_s, since_s + lease_s) >= SHARE_OF_INSTALLATION

    return frozenset(uid for uid, silence in silent.items() if is_one_of_many(silence.since_s))


def _newest_first(silent: Iterable[Silence]) -> list[Silence]:
    return sorted(silent, key=lambda silence: -silence.since_s)


def no_longer_exempt(before: frozenset[str], now: frozenset[str], silent: Mapping[str, Silence]) -> frozenset[str]:
    """Return the pods that are no longer exempt, although they are still silent and no dead node explains it.

    Other agents have come back, so these may come back soon: their silence counts from now.
    """
    return frozenset(uid for uid in before - now if uid in silent and silent[uid].domain == uid)
