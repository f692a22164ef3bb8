"""The headless service of a job."""

from elasticjob_operator.render.service import render_service
from testing.builders import job


def test_the_service_is_headless_and_knows_pods_that_are_not_ready() -> None:
    spec = render_service(job())["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_it_never_selects_a_pod_of_a_predecessor_of_the_same_name() -> None:
    assert render_service(job())["spec"]["selector"] == {"elasticjob.io/job-uid": "job-uid"}


def test_it_is_called_after_the_job_as_the_pods_subdomain_is_and_goes_with_it() -> None:
    meta = render_service(job())["metadata"]
    assert (meta["name"], meta["namespace"]) == ("j", "ns")
    assert [owner["uid"] for owner in meta["ownerReferences"]] == ["job-uid"]
