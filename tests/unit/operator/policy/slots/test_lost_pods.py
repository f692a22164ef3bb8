"""Running pods whose agent is gone, and the time until they are lost."""

from elasticjob_api.spec import Rendezvous
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.snapshot import LostPods
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from testing.builders import NOW_S, spec

SPEC = spec(lost_pod_timeout_s=30.0, rendezvous=Rendezvous(join_timeout_s=600.0))


def lost(*agents_seen: str, **since_s: float) -> LostPods:
    """Return the lost pods; `since_s` is the seconds that each uid has been without an agent."""
    alone = {uid: NOW_S - for_s for uid, for_s in since_s.items()}
    return lost_pods(SPEC, JobState(agent_seen=set(agents_seen), agentless_since_s=alone), NOW_S)


def test_a_pod_with_its_agent_is_not_lost() -> None:
    assert lost("a") == LostPods(frozenset(), None)


def test_a_pod_whose_agent_is_gone_is_lost_after_lost_pod_timeout() -> None:
    assert lost("a", a=30.0) == LostPods(frozenset({"a"}), None)
    assert lost("a", a=29.0) == LostPods(frozenset(), NOW_S + 1.0)


def test_a_pod_whose_agent_never_joined_has_the_join_timeout() -> None:
    assert lost(a=31.0) == LostPods(frozenset(), NOW_S + 569.0)
    assert lost(a=600.0).uids == {"a"}


def test_a_timeout_of_0_means_never() -> None:
    job_state = JobState(agent_seen={"a"}, agentless_since_s={"a": 0.0, "b": 0.0})
    assert lost_pods(spec(lost_pod_timeout_s=0.0), job_state, NOW_S) == LostPods(frozenset(), None)


def test_the_next_check_is_that_of_the_next_pod_and_never_in_the_past() -> None:
    assert lost("a", "b", "c", a=40.0, b=20.0, c=5.0) == LostPods(frozenset({"a"}), NOW_S + 10.0)
