"""The part of each job that is cached; finished jobs use no memory of running ones."""

from typing import Any

import pytest

from elasticjob_operator.controller.job_parser import parse
from elasticjob_operator.informers.retained_jobs import RetainedJobs
from elasticjob_operator.informers.transform import status_memory, strip
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_end import has_ended
from elasticjob_operator.policy.etcd.quota import quota
from elasticjob_operator.policy.lifecycle.ttl import expires_at_s
from elasticjob_operator.policy.status.build import is_finished

MIB = 1 << 20
END = "2026-01-01T00:00:00Z"
COMPLETE = {"type": "Complete", "status": "True", "reason": "r", "lastTransitionTime": END}
ENDED = {"completionTime": END, "startTime": END, "phase": "Succeeded", "conditions": [COMPLETE]}
BEGUN = {"startTime": END, "phase": "Running"}


def job(name: str, status: dict[str, Any], *, text: int = 10_000, **spec: Any) -> Object:
    gpus = {"limits": {"nvidia.com/gpu": 8, "memory": "1Gi"}}
    trainer = {"name": "trainer", "image": "i", "command": ["python", "x" * text], "resources": gpus}
    containers = [{"name": "side", "image": "i"}, trainer]
    template = {"spec": {"containers": containers, "volumes": [{"name": "v"}]}}
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"template": template, "trainerContainer": "trainer", "suspend": False, "replicas": 3, **spec},
        "status": status,
    }


def keep(retained: RetainedJobs, of: Object) -> Object:
    return retained.retain(strip(Resource.JOB, of))


def test_finished_jobs_leave_a_namespace_all_its_memory() -> None:
    retained = RetainedJobs(MIB)
    for number in range(500):
        assert not objects.not_retained_reason(keep(retained, job(f"ended-{number}", ENDED)))
    assert not objects.not_retained_reason(keep(retained, job("new", {})))


@pytest.mark.parametrize("text", [10_000, 300_000], ids=["usual", "larger than a job may be"])
def test_a_finished_job_keeps_the_fields_for_its_clean_up(text: int) -> None:
    wants: dict[str, Any] = {
        "ttlSecondsAfterFinished": 60,
        "cleanPodPolicy": "All",
        "gracefulShutdown": {"seconds": 7.0},
    }
    whole = job("j", ENDED, **wants)
    found = parse(keep(RetainedJobs(0), job("j", ENDED, text=text, **wants)))
    assert is_finished(found.status)
    assert expires_at_s(found, found.status) == expires_at_s(parse(whole), found.status)
    assert (found.spec.clean_pod_policy, found.spec.graceful_shutdown.seconds) == ("All", 7.0)
    assert quota(found.spec, nodes=3) == quota(parse(whole).spec, nodes=3)
    assert "volumes" not in str(keep(RetainedJobs(0), whole))


@pytest.mark.parametrize(
    "hole",
    [
        {"failurePolicy": {"rules": [{"action": "x" * 99}] * 999}},
        {"trainerContainer": "x" * 99_999},
        {"nobody knows": [{}] * 9_999},
        {"template": {"spec": {"containers": [{"name": "x" * 99_999, "command": {}}] * 2}}},
        {"template": {"spec": {"containers": [None], "x": []}}},
        {"template": []},
    ],
)
def test_a_finished_job_uses_little_memory(hole: dict[str, Any]) -> None:
    assert len(str(keep(RetainedJobs(0), job("j", ENDED, **hole)))) < 2_000


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (ENDED, True),
        ({"completionTime": END}, True),
        ({"conditions": [COMPLETE]}, True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, True),
        ({**ENDED, "selector": "elasticjob.io/job-uid=uid-j"}, True),
        ({**ENDED, "selector": "elasticjob.io/job-uid=a predecessor's"}, False),
        ({"conditions": [{**COMPLETE, "status": "False"}]}, False),
        ({"conditions": [None, "Complete"]}, False),
        (BEGUN, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_job_counts_as_finished_exactly_if_its_parsed_status_does(status: Any, ended: bool) -> None:  # noqa: FBT001
    of = job("j", status)
    assert (has_ended(of), is_finished(parse(of).status)) == (ended, ended)


def test_a_status_beyond_what_an_operator_writes_counts() -> None:
    retained = RetainedJobs(8 * MIB)
    large = {**BEGUN, "nodes": [{"rank": number} for number in range(20_000)]}
    found = [keep(retained, job(str(number), large)) for number in range(10)]
    assert 1 < sum(not objects.not_retained_reason(each) for each in found) < 6
    assert max(status_memory(each) for each in found if objects.not_retained_reason(each)) < 10_000


def test_a_large_status_of_a_finished_job_is_cached_while_memory_is_free() -> None:
    retained = RetainedJobs(8 * MIB)
    filler = [{"type": "Other", "status": "True"}] * 99
    large = {"conditions": [*filler, COMPLETE], "nodes": [{"rank": number} for number in range(20_000)]}
    found = [keep(retained, job(str(number), large)) for number in range(10)]
    assert sum(status_memory(each) > MIB for each in found) < 6
    assert all(has_ended(each) and not objects.not_retained_reason(each) for each in found)


def test_a_job_that_is_too_large_is_distinguished_from_one_over_the_quota() -> None:
    large, refused = keep(RetainedJobs(), job("j", BEGUN, text=300_000)), keep(RetainedJobs(0), job("j", {}))
    assert [objects.is_too_large(large), bool(objects.not_retained_reason(large))] == [True, True]
    assert [objects.is_too_large(refused), bool(objects.not_retained_reason(refused))] == [False, True]


SUSPENDED = {"type": "Suspended", "status": "True", "reason": "Suspended"}


@pytest.mark.parametrize(
    "status",
    [BEGUN, {**BEGUN, "startTime": "", "conditions": [SUSPENDED]}, {"conditions": [{**SUSPENDED, "status": "False"}]}],
    ids=["it runs", "it is suspended", "its pods are about to stop"],
)
def test_a_job_over_the_quota_keeps_the_fields_for_a_suspension(status: dict[str, Any]) -> None:
    found = parse(retained := keep(RetainedJobs(0), job("j", status, suspend=True, replicas=3)))
    assert (found.spec.suspend, found.spec.replicas) == (True, 3)
    assert len(str(retained)) < 2_000


@pytest.mark.parametrize(
    ("status", "suspend"), [(BEGUN, False), ({}, True), ({"conditions": [{"type": "Accepted"}]}, True)]
)
def test_a_job_over_the_quota_that_shall_run_or_has_no_status_is_refused(
    status: dict[str, Any],
    suspend: bool,  # noqa: FBT001
) -> None:
    assert objects.not_retained_reason(keep(RetainedJobs(0), job("j", status, suspend=suspend)))


@pytest.mark.parametrize("status", [BEGUN, ENDED], ids=["suspended", "ended"])
def test_a_reduced_job_keeps_no_long_annotation(status: dict[str, Any]) -> None:
    of = job("j", status, suspend=True)
    of["metadata"]["annotations"] = {"elasticjob.io/restart": "x" * 200_000}
    assert len(str(keep(RetainedJobs(0), of))) < 2_000
