"""A job is parsed once for each thing that its user says; what the operator says of it is no reason to do it again."""

import copy
from typing import Any

import pytest

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.names import Phase
from elasticjob_api.status import JobStatus
from elasticjob_operator.acceptance import Acceptor, accept

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
    acceptor = Acceptor()
    first = acceptor.accept(JOB, None)
    assert acceptor.accept(changed(("metadata", "resourceVersion"), "2"), None).spec is first.spec
    again = acceptor.accept(changed(("status", "phase"), "Running"), None)
    assert (again.spec is first.spec, again.status.phase) == (True, "Running")


def test_the_status_that_is_known_already_is_not_read() -> None:
    said = JobStatus(phase=Phase.SUSPENDED)
    assert Acceptor().accept(changed(("status", "phase"), "Running"), said).status is said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 3),
        (("spec", "template", "spec", "nodeName"), "n1"),
        (("metadata", "generation"), 2),
        (("metadata", "annotations"), {"elasticjob.io/restart": "1"}),
    ],
)
def test_whatever_the_user_changes_is_read_anew(path: tuple[str, ...], value: Any) -> None:
    acceptor = Acceptor()
    acceptor.accept(JOB, None)
    assert acceptor.accept(changed(path, value), None) == accept(changed(path, value))


def test_a_refused_version_is_refused_again_and_its_correction_taken() -> None:
    acceptor, broken = Acceptor(), changed(("spec", "replicas"), -1)
    for _ in range(2):
        with pytest.raises(InvalidSpec):
            acceptor.accept(broken, None)
    assert acceptor.accept(JOB, None) == accept(JOB)
