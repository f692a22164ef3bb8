"""What is kept of an object: of a pod what the policies read, of a job all but the history of its fields."""

from typing import Any

import pytest

from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.cluster.slim import slim
from elasticjob_operator.pods import parse_pod

NOW = "2026-01-02T03:04:05Z"
AGENT = {"name": "ELASTICJOB_PREFIX", "value": "/elasticjob/c/n/j/u"}


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
    containers = [{"name": "side", "image": "i"}, {"name": "trainer", "image": "i", "env": [{"name": "A"}, AGENT]}]
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
def test_a_pod_cut_down_is_read_as_the_whole_one(status: dict[str, Any]) -> None:
    assert parse_pod(slim(Resource.POD, pod(**status))) == parse_pod(pod(**status))


@pytest.mark.parametrize("odd", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": {"containers": None}}])
def test_a_pod_that_lacks_everything_is_cut_down_too(odd: dict[str, Any]) -> None:
    assert parse_pod(slim(Resource.POD, odd)) == parse_pod(odd)


def test_what_nobody_reads_of_a_pod_is_dropped() -> None:
    kept = slim(Resource.POD, pod())
    assert "managedFields" not in kept["metadata"]
    assert kept["spec"] == {
        "nodeName": "n1",
        "containers": [{"name": "side"}, {"name": "trainer", "env": [AGENT]}],
    }


@pytest.mark.parametrize("annotations", [{}, {"elasticjob.io/agent-image": "mirror/agent:1", "other": "x" * 999}])
def test_what_tells_the_image_of_the_agent_is_kept(annotations: dict[str, str]) -> None:
    whole = pod()
    whole["metadata"]["annotations"] = annotations
    whole["spec"]["initContainers"] = [
        {"name": "fetch", "image": "f"},
        {"name": "elasticjob-inject", "image": "agent:1"},
    ]
    kept = slim(Resource.POD, whole)
    assert parse_pod(kept) == parse_pod(whole)
    assert "other" not in str(kept)
    assert parse_pod(kept).agent_image == annotations.get("elasticjob.io/agent-image", "agent:1")


def test_a_job_keeps_all_but_the_history_of_its_fields() -> None:
    job: dict[str, Any] = {
        "metadata": {"name": "j", "managedFields": [{}], "annotations": {"a": "b"}},
        "spec": {"x": 1},
        "status": {},
    }
    kept = slim(Resource.JOB, job)
    assert kept == {**job, "metadata": {"name": "j", "annotations": {"a": "b"}}}
    assert "managedFields" in job["metadata"], "itself unchanged"
