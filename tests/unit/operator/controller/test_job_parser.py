"""Parsing of a job: once for each change by its user; statuses of the operator cause no new parsing."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import Phase
from elasticjob_api.errors import InvalidSpec
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.job_parser import CachingJobParser, parse, unknown_in_status
from elasticjob_operator.policy.status.build import is_finished

JOB: dict[str, Any] = {
    "apiVersion": "elasticjob.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "j", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "1"},
    "spec": {"template": {"spec": {"containers": [{"name": "trainer", "image": "i", "command": ["true"]}]}}},
}


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    job = copy.deepcopy(JOB)
    place = job
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    return job


def test_another_status_or_version_is_the_same_job() -> None:
    acceptor = CachingJobParser()
    first = acceptor.parse(JOB, None)
    assert acceptor.parse(changed(("metadata", "resourceVersion"), "2"), None).spec is first.spec
    again = acceptor.parse(changed(("status", "phase"), "Running"), None)
    assert (again.spec is first.spec, again.status.phase) == (True, "Running")


def test_a_known_status_is_not_parsed() -> None:
    status = JobStatus(phase=Phase.SUSPENDED)
    assert CachingJobParser().parse(changed(("status", "phase"), "Running"), status).status is status


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 3),
        (("spec", "template", "spec", "nodeName"), "n1"),
        (("metadata", "generation"), 2),
        (("metadata", "annotations"), {"elasticjob.io/restart": "1"}),
    ],
)
def test_each_change_by_the_user_is_parsed(path: tuple[str, ...], value: Any) -> None:
    acceptor = CachingJobParser()
    acceptor.parse(JOB, None)
    assert acceptor.parse(changed(path, value), None) == parse(changed(path, value))


def test_an_invalid_version_is_refused_again_and_its_correction_accepted() -> None:
    acceptor, broken = CachingJobParser(), changed(("spec", "replicas"), -1)
    for _ in range(2):
        with pytest.raises(InvalidSpec):
            acceptor.parse(broken, None)
    assert acceptor.parse(JOB, None) == parse(JOB)


RUNNING = {"type": "Running", "status": "True", "reason": "R"}
ENDS: list[Any] = [
    pytest.param({"completionTime": "2026-01-01T00:00:00Z"}, id="a completion time"),
    pytest.param({"completionTime": 7}, id="a completion time that is no text"),
    pytest.param({"conditions": [{"type": "Complete", "status": "True", "reason": "R"}]}, id="Complete"),
    pytest.param({"conditions": [RUNNING, {"type": "Failed", "status": "True", "reason": "R", "x": {}}]}, id="Failed"),
    pytest.param({"conditions": [5, {"type": "Complete", "status": "True", "reason": {}}]}, id="a broken Complete"),
    pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, id="a bare Complete"),
]
AROUND: list[Any] = [
    pytest.param({}, id="alone"),
    pytest.param({"nodes": [{"name": "a", "podName": "a-x", "futureField": "x"}]}, id="beside a new nested field"),
    pytest.param({"phase": "Dreaming", "workerStates": {"warm": 1}}, id="beside new words"),
    pytest.param({"nodes": 5, "replicas": "x", "startTime": [], "selector": {}, "rounds": [None]}, id="beside garbage"),
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("end", ENDS)
def test_an_ended_job_is_finished_even_if_the_rest_is_unreadable(end: Any, around: Any) -> None:
    found = parse({**JOB, "status": {**around, **end}}).status
    assert is_finished(found)
    for condition in found.conditions:
        assert {condition.type, condition.status, condition.reason}.isdisjoint({""})


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "status",
    [{}, {"conditions": [RUNNING]}, {"conditions": [{"type": "Complete", "status": "False"}]}, {"completionTime": ""}],
)
def test_a_job_that_has_not_ended_is_not_finished(status: Any, around: Any) -> None:
    assert not is_finished(parse({**JOB, "status": {**around, **status}}).status)


def test_the_end_of_an_earlier_job_of_the_same_name_does_not_count() -> None:
    status = {"completionTime": "2026-01-01T00:00:00Z", "selector": "elasticjob.io/job-uid=another"}
    assert parse({**JOB, "status": status}).status == JobStatus()
    assert unknown_in_status({**JOB, "status": {**status, "futureField": 1}}) == []


def test_an_unknown_field_is_named_and_no_error() -> None:
    job = parse(changed(("spec", "newThing"), "x"))
    assert job.unknown_fields == ("spec.newThing",)
    assert replace(job, unknown_fields=()) == parse(JOB)
