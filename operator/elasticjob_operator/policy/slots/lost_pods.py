"""Lost pods: the API server reports them as running, but their agent is gone (a dead node, or an agent that hangs).

A pod is not lost while it is exempt because many agents became unreachable at once (`unreachable_agents.py`).

Only a pod whose agent has joined once can be lost. Before that, the agent exits by itself after joinTimeoutSeconds, and
startupDeadlineSeconds applies to the whole job. An agent has joined if this process observed it. An earlier
process may have observed it if the status lists a round of the pod (`joined.py`).
"""

from elasticjob_api.spec import JobSpec
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.snapshot import LostPods
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S
from elasticjob_operator.policy.slots.unreachable_agents import CHECK_AGAIN_S


def lost_pods(spec: JobSpec, job_state: JobState, monotonic_s: float) -> LostPods:
    """Return the running pods that have been without an agent for too long."""
    if not spec.lost_pod_timeout_s:
        return LostPods(frozenset(), None)  # 0 disables the replacement of lost pods
    agentless = ((uid, at_s) for uid, at_s in job_state.agentless_since_s.items() if uid not in job_state.unreachable)
    due = {uid: since_s + _grace_s(spec, job_state, uid) for uid, since_s in agentless}
    later = [at_s for at_s in due.values() if at_s > monotonic_s]
    if job_state.unreachable:
        reported = (_reported_at_s(spec, job_state, uid) for uid in job_state.unreachable)
        later += [monotonic_s + CHECK_AGAIN_S, *(at_s for at_s in reported if at_s > monotonic_s)]
    return LostPods(frozenset(uid for uid, at_s in due.items() if at_s <= monotonic_s), min(later, default=None))


def reported_unreachable(spec: JobSpec, job_state: JobState, monotonic_s: float) -> frozenset[str]:
    """Return the exempt pods (uids) that have been without an agent for long enough to report it."""
    return frozenset(uid for uid in job_state.unreachable if _reported_at_s(spec, job_state, uid) <= monotonic_s)


def _reported_at_s(spec: JobSpec, job_state: JobState, uid: str) -> float:
    """Return when to report a pod: one lease time after its agent's lease ended, or later if the agent never joined."""
    # An agent that this process has never observed may still be starting.
    grace_s = spec.rendezvous.keep_alive_s if uid in job_state.agent_seen else EXPECTED_FOR_S
    return job_state.agentless_since_s[uid] + grace_s


def _grace_s(spec: JobSpec, job_state: JobState, uid: str) -> float:
    return spec.lost_pod_timeout_s if uid in job_state.agent_seen else spec.rendezvous.join_timeout_s
