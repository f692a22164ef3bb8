"""Removal of unused fields: a pod keeps the fields that policies read, a job all but its managed fields."""

from typing import Any

import pytest

from elasticjob_operator.informers.retained_jobs import RetainedJobs
from elasticjob_operator.informers.transform import strip
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.pod import parse_pod

NOW = "2026-01-02T03:04:05Z"
AGENT = {"name": "ELASTICJOB_PREFIX", "value": "/elasticjob/c/n/j/u"}
SPEC = {"name": "ELASTICJOB_SPEC", "value": "48213 6.0 1 SIGTERM"}


def pod(**status: Any) -> dict[str, Any]:
    metadata = {
        "name": "j-3-a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": NOW,
        "labels": {"elasticjob.io/slot": "3"},
        "deletionTimestamp": NOW,
        "managedFields": [{"manager": "kubelet"}],
    }
    containers = [
        {"name": "side", "image": "i"},
        {"name": "trainer", "image": "i", "env": [{"name": "A"}, AGENT, SPEC]},
    ]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": containers, "volumes": [{}]},
        "status": status,
    }


def container(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "ready": False, "state": state}


STATUSES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "running": {"phase": "Running", "startTime": NOW, "containerStatuses": [container("trainer", running={})]},
    "ended": {"phase": "Failed", "containerStatuses": [container("trainer", terminated={"exitCode": 3})]},
    "waiting": {"phase": "Pending", "containerStatuses": [container("trainer", waiting={"reason": "ErrImagePull"})]},
    "evicted": {"phase": "Failed", "reason": "Evicted", "message": "disk"},
    "disrupted": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "message": "m"}]},
    "unschedulable": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}]},
    "init": {"phase": "Failed", "initContainerStatuses": [container("agent", terminated={"exitCode": 2})]},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_stripped_pod_is_parsed_as_the_whole_one(status: dict[str, Any]) -> None:
    assert parse_pod(strip(Resource.POD, pod(**status))) == parse_pod(pod(**status))


@pytest.mark.parametrize("odd", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": {"containers": None}}])
def test_a_pod_without_any_field_can_be_stripped(odd: dict[str, Any]) -> None:
    assert parse_pod(strip(Resource.POD, odd)) == parse_pod(odd)


def test_unused_fields_of_a_pod_are_dropped() -> None:
    stripped = strip(Resource.POD, pod())
    assert "managedFields" not in stripped["metadata"]
    assert stripped["spec"] == {
        "nodeName": "n1",
        "containers": [{"name": "side"}, {"name": "trainer", "env": [AGENT, {**SPEC, "value": "48213"}]}],
    }


@pytest.mark.parametrize("annotations", [{}, {"elasticjob.io/agent-image": "mirror/agent:1", "other": "x" * 999}])
def test_fields_with_the_image_of_the_agent_remain(annotations: dict[str, str]) -> None:
    whole = pod()
    whole["metadata"]["annotations"] = annotations
    whole["spec"]["initContainers"] = [
        {"name": "fetch", "image": "f"},
        {"name": "elasticjob-inject", "image": "agent:1"},
    ]
    stripped = strip(Resource.POD, whole)
    assert parse_pod(stripped) == parse_pod(whole)
    assert "other" not in str(stripped)
    assert parse_pod(stripped).agent_image == annotations.get("elasticjob.io/agent-image", "agent:1")


RESTART = {"elasticjob.io/restart": "now"}


def job(**spec: Any) -> dict[str, Any]:
    status = {"phase": "Running", "startTime": NOW, "installation": "here", "nodes": [{"rank": 0}]}
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "7"},
        "spec": spec,
        "status": status,
    }


def test_a_job_keeps_all_but_unused_metadata() -> None:
    whole = job(x=1)
    whole["metadata"] |= {"annotations": {**RESTART, "kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    whole["metadata"] |= {"managedFields": [{}], "labels": {"a": "b"}, "finalizers": ["a", "orphan"]}
    stripped = strip(Resource.JOB, whole)
    of_metadata = {**job()["metadata"], "annotations": RESTART, "finalizers": ["orphan"]}
    assert stripped == {**job(x=1), "metadata": of_metadata}
    assert "managedFields" in whole["metadata"], "itself unchanged"


def test_a_job_that_is_too_large_is_reduced_to_its_head() -> None:
    whole = job(template={"hole": [{}] * 10_001}, managedBy="us", nprocPerNode=8)
    whole["metadata"]["annotations"] = RESTART
    stripped = strip(Resource.JOB, whole)
    assert stripped.pop(objects.NOT_RETAINED).startswith("has more than 10000 fields and items; keep scripts")
    assert stripped.pop(objects.TOO_LARGE)
    assert stripped == job(managedBy="us", nprocPerNode=8), "its identity and its status"


def test_a_foreign_status_is_reduced_to_the_end_of_the_job() -> None:
    whole = job()
    ended = {"type": "Complete", "status": "True"}
    whole["status"] |= {"conditions": [ended] * 100, "nodes": [{}] * 250_000}
    stripped = RetainedJobs().retain(strip(Resource.JOB, whole))
    assert stripped["status"] == {
        "phase": "Running",
        "startTime": NOW,
        "installation": "here",
        "conditions": [ended] * 32,
    }


def test_the_status_of_a_job_with_many_workers_remains_whole() -> None:
    whole = job()
    whole["status"]["nodes"] = [{"rank": rank, "rankCpuPercent": [300 + rank] * 8} for rank in range(1_000)]
    assert RetainedJobs().retain(strip(Resource.JOB, whole)) == whole
