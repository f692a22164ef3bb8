"""PURE: pods that run for the API server though their agent is gone: a dead node, or an agent that hangs.

Only a pod whose agent has joined once can be lost: before that, the agent itself gives up after
joinTimeoutSeconds, and startupDeadlineSeconds speaks of the whole job. This process must have seen the agent;
after a restart of the operator a pod without one gets joinTimeoutSeconds instead of lostPodTimeoutSeconds.
"""

from dataclasses import dataclass

from elasticjob_api.spec import JobSpec
from elasticjob_operator.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Lost:
    """Uids of lost pods, and when the next one would be."""

    uids: frozenset[str]
    next_at_s: float | None


def lost_pods(spec: JobSpec, ledger: Ledger, now_s: float) -> Lost:
    """The running pods that have been without an agent for too long."""
    if not spec.lost_pod_timeout_s:
        return Lost(frozenset(), None)  # 0: never
    due = {uid: since_s + _patience_s(spec, ledger, uid) for uid, since_s in ledger.agentless_since_s.items()}
    later = [at_s for at_s in due.values() if at_s > now_s]
    return Lost(frozenset(uid for uid, at_s in due.items() if at_s <= now_s), min(later, default=None))


def _patience_s(spec: JobSpec, ledger: Ledger, uid: str) -> float:
    return spec.lost_pod_timeout_s if uid in ledger.agent_seen else spec.rendezvous.join_timeout_s
