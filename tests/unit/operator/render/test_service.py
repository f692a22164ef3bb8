"""The headless service of a job."""

from elasticjob_operator.render.service import render_service
from testing.builders import job


def test_the_service_is_headless_and_includes_pods_that_are_not_ready() -> None:
    spec = render_service(job())["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_the_service_never_selects_a_pod_of_a_predecessor_of_the_same_name() -> None:
    assert render_service(job())["spec"]["selector"] == {"elasticjob.io/job-uid": "job-uid"}


def test_the_service_has_the_name_of_the_job_and_is_deleted_with_it() -> None:
    meta = render_service(job())["metadata"]
    assert (meta["name"], meta["namespace"]) == ("j", "ns")
    assert [owner["uid"] for owner in meta["ownerReferences"]] == ["job-uid"]
