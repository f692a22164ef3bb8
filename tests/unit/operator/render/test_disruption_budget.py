"""The PodDisruptionBudget of a job."""

import pytest

from elasticjob_api.spec import DisruptionBudget
from elasticjob_operator.render.disruption_budget import has_disruption_budget, render_disruption_budget
from testing.builders import job


@pytest.mark.parametrize(("lowest", "kept"), [(None, 4), (2, 2)])
def test_a_drain_leaves_the_nodes_that_the_job_cannot_do_without(lowest: int | None, kept: int) -> None:
    assert render_disruption_budget(job(replicas=4, min_replicas=lowest))["spec"]["minAvailable"] == kept


@pytest.mark.parametrize(
    ("wanted", "there"), [(None, True), (DisruptionBudget.MIN_REPLICAS, True), (DisruptionBudget.NONE, False)]
)
def test_a_job_has_a_budget_unless_it_wants_none(wanted: DisruptionBudget | None, *, there: bool) -> None:
    assert has_disruption_budget(job(pod_disruption_budget=wanted)) is there


def test_it_counts_the_pods_of_this_very_job_and_goes_with_it() -> None:
    made = render_disruption_budget(job())
    assert made["spec"]["selector"] == {"matchLabels": {"elasticjob.io/job-uid": "job-uid"}}
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["job-uid"]


def test_a_pod_that_is_not_healthy_never_holds_a_drain_up() -> None:
    assert render_disruption_budget(job())["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
