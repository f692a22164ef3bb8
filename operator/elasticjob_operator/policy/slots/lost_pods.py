"""PURE: pods that run for the API server though their agent is gone: a dead node, or an agent that hangs.

Pods that are left alone because many agents fell silent at once are not lost (`unreachable.py`).

Only a pod whose agent has joined once can be lost: before that, the agent itself gives up after
joinTimeoutSeconds, and startupDeadlineSeconds speaks of the whole job. This process must have seen the agent, or
the status must list a round of the pod (`joined.py`): another process may have seen it.
"""

from dataclasses import dataclass

from elasticjob_api.spec import JobSpec
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S
from elasticjob_operator.policy.slots.unreachable_agents import CHECK_AGAIN_S


@dataclass(frozen=True, slots=True)
class LostPods:
    """Uids of lost pods, and when the next one would be."""

    uids: frozenset[str]
    check_at_s: float | None


def lost_pods(spec: JobSpec, job_state: JobState, monotonic_s: float) -> LostPods:
    """The running pods that have been without an agent for too long."""
    if not spec.lost_pod_timeout_s:
        return LostPods(frozenset(), None)  # 0: never
    judged = ((uid, at_s) for uid, at_s in job_state.agentless_since_s.items() if uid not in job_state.unreachable)
    due = {uid: since_s + _grace_s(spec, job_state, uid) for uid, since_s in judged}
    later = [at_s for at_s in due.values() if at_s > monotonic_s]
    if job_state.unreachable:
        shown = (_reported_at_s(spec, job_state, uid) for uid in job_state.unreachable)
        later += [monotonic_s + CHECK_AGAIN_S, *(at_s for at_s in shown if at_s > monotonic_s)]
    return LostPods(frozenset(uid for uid, at_s in due.items() if at_s <= monotonic_s), min(later, default=None))


def reported_unreachable(spec: JobSpec, job_state: JobState, monotonic_s: float) -> frozenset[str]:
    """The pods (uids) that are left alone and have been silent for long enough to report it."""
    return frozenset(uid for uid in job_state.unreachable if _reported_at_s(spec, job_state, uid) <= monotonic_s)


def _reported_at_s(spec: JobSpec, job_state: JobState, uid: str) -> float:
    """A lease time after the silence began; an agent that was never seen may only be starting."""
    grace_s = spec.rendezvous.keep_alive_s if uid in job_state.agent_seen else EXPECTED_FOR_S
    return job_state.agentless_since_s[uid] + grace_s


def _grace_s(spec: JobSpec, job_state: JobState, uid: str) -> float:
    return spec.lost_pod_timeout_s if uid in job_state.agent_seen else spec.rendezvous.join_timeout_s
