"""The PodDisruptionBudget of a job."""

import pytest

from elasticjob_api.spec import DisruptionBudget
from elasticjob_operator.render.disruption_budget import has_disruption_budget, render_disruption_budget
from testing.builders import job


@pytest.mark.parametrize(("lowest", "remaining"), [(None, 4), (2, 2)])
def test_a_drain_leaves_min_replicas_of_the_job(lowest: int | None, remaining: int) -> None:
    assert render_disruption_budget(job(replicas=4, min_replicas=lowest))["spec"]["minAvailable"] == remaining


@pytest.mark.parametrize(
    ("wanted", "exists"), [(None, True), (DisruptionBudget.MIN_REPLICAS, True), (DisruptionBudget.NONE, False)]
)
def test_a_job_has_a_budget_unless_its_spec_turns_it_off(wanted: DisruptionBudget | None, *, exists: bool) -> None:
    assert has_disruption_budget(job(pod_disruption_budget=wanted)) is exists


def test_the_budget_selects_the_pods_by_uid_and_is_deleted_with_the_job() -> None:
    made = render_disruption_budget(job())
    assert made["spec"]["selector"] == {"matchLabels": {"elasticjob.io/job-uid": "job-uid"}}
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["job-uid"]


def test_an_unhealthy_pod_never_blocks_a_drain() -> None:
    assert render_disruption_budget(job())["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
