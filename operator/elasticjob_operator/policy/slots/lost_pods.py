"""PURE: pods that run for the API server though their agent is gone: a dead node, or an agent that hangs.

Pods that are left alone because many agents fell silent at once are not lost (`unreachable.py`).

Only a pod whose agent has joined once can be lost: before that, the agent itself gives up after
joinTimeoutSeconds, and startupDeadlineSeconds speaks of the whole job. This process must have seen the agent, or
the status must list a round of the pod (`joined.py`): another process may have seen it.
"""

from dataclasses import dataclass

from elasticjob_api.spec import JobSpec
from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S
from elasticjob_operator.policy.slots.unreachable_agents import LOOK_AGAIN_S


@dataclass(frozen=True, slots=True)
class Lost:
    """Uids of lost pods, and when the next one would be."""

    uids: frozenset[str]
    next_at_s: float | None


def lost_pods(spec: JobSpec, ledger: Ledger, monotonic_s: float) -> Lost:
    """The running pods that have been without an agent for too long."""
    if not spec.lost_pod_timeout_s:
        return Lost(frozenset(), None)  # 0: never
    judged = ((uid, at_s) for uid, at_s in ledger.agentless_since_s.items() if uid not in ledger.unreachable)
    due = {uid: since_s + _patience_s(spec, ledger, uid) for uid, since_s in judged}
    later = [at_s for at_s in due.values() if at_s > monotonic_s]
    if ledger.unreachable:
        shown = (_shown_at_s(spec, ledger, uid) for uid in ledger.unreachable)
        later += [monotonic_s + LOOK_AGAIN_S, *(at_s for at_s in shown if at_s > monotonic_s)]
    return Lost(frozenset(uid for uid, at_s in due.items() if at_s <= monotonic_s), min(later, default=None))


def shown_unreachable(spec: JobSpec, ledger: Ledger, monotonic_s: float) -> frozenset[str]:
    """The pods (uids) that are left alone and have been silent for long enough to report it."""
    return frozenset(uid for uid in ledger.unreachable if _shown_at_s(spec, ledger, uid) <= monotonic_s)


def _shown_at_s(spec: JobSpec, ledger: Ledger, uid: str) -> float:
    """A lease time after the silence began; an agent that was never seen may only be starting."""
    patience_s = spec.rendezvous.keep_alive_s if uid in ledger.agent_seen else EXPECTED_FOR_S
    return ledger.agentless_since_s[uid] + patience_s


def _patience_s(spec: JobSpec, ledger: Ledger, uid: str) -> float:
    return spec.lost_pod_timeout_s if uid in ledger.agent_seen else spec.rendezvous.join_timeout_s
