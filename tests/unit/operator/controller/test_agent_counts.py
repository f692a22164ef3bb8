"""The share of the installation's agents that fell silent at the same time."""

from elasticjob_operator.controller.agent_counts import AgentCounts
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.slots.unreachable_agents import Silence
from tests.unit.operator.cluster_model import Model


def key(name: str) -> JobKey:
    return JobKey("ns", name, f"uid-{name}")


def test_the_share_is_of_all_agents_of_all_jobs() -> None:
    counts = AgentCounts()
    counts.record(key("a"), 4, [Silence(100.0, "a1"), Silence(101.0, "a2")])
    counts.record(key("b"), 6, [Silence(102.0, "b1"), Silence(900.0, "b2")])
    assert counts.share_silent(95.0, 105.0) == 0.3
    assert counts.share_silent(95.0, 101.0) == 0.2


def test_a_single_silence_does_not_count() -> None:
    counts = AgentCounts()
    counts.record(key("a"), 1, [Silence(100.0, "a1")])
    assert counts.share_silent(0.0, 200.0) == 0.0
    counts.record(key("b"), 1, [Silence(100.0, "node n1")])
    counts.record(key("c"), 1, [Silence(100.0, "node n1")])
    assert counts.share_silent(0.0, 200.0) == 2 / 3


def test_a_repeated_job_counts_once_and_a_forgotten_one_not_at_all() -> None:
    counts = AgentCounts()
    counts.record(key("a"), 10, [Silence(100.0, "a1"), Silence(100.0, "a2")])
    counts.record(key("a"), 10, [Silence(100.0, "a1"), Silence(100.0, "a2")])
    assert counts.share_silent(0.0, 200.0) == 0.2
    counts.record(key("b"), 10, [])
    assert counts.share_silent(0.0, 200.0) == 0.1
    counts.forget(key("a"))
    assert counts.share_silent(0.0, 200.0) == 0.0


def test_a_new_leadership_counts_no_agents_of_an_earlier_one() -> None:
    model = Model(replicas=3)
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.quiesce()
    reconciler = model.process.reconciler
    assert reconciler._snapshots._agents != AgentCounts()
    reconciler.reset()
    assert reconciler._snapshots._agents == AgentCounts()
    model.close()
