"""Changes of an existing job: permitted fields and times, through apply, patch, scale and the status subresource."""

import json
from typing import Any

import pytest

from elasticjob_api.constants import Phase
from elasticjob_api.job import status_to_dict
from elasticjob_api.status import (
    Condition,
    JobStatus,
    KeepStatus,
    LastFailure,
    NodeKeepStatus,
    NodeStatus,
    ProgressStatus,
    StartStatus,
    WorkerStates,
)
from testing.kube.manifests import ELASTIC, REMOVED, changed
from testing.kube.namespace import Namespace

pytestmark = pytest.mark.kube

TRAINER = "spec.template.spec.containers.0"
WHILE_SUSPENDED = "may change only while spec.suspend is true"
TEMPLATE_CHANGES = [
    pytest.param({f"{TRAINER}.image": "training:2"}, id="known-field"),
    pytest.param({f"{TRAINER}.env": [{"name": "LR", "value": "0.1"}]}, id="unknown-field"),
    pytest.param({"spec.template.spec.affinity": {"nodeAffinity": {"future": {"deep": 1}}}}, id="deep-unknown-field"),
    pytest.param({"spec.template.metadata": {"labels": {"team": "vision"}}}, id="label"),
]

NOW = "2026-01-02T03:04:05Z"
FULL_STATUS = JobStatus(
    observed_generation=3,
    phase=Phase.RUNNING,
    conditions=(Condition(type="Running", status="True", reason="AllUp", last_transition_time=NOW),),
    replicas=2,
    selector="elasticjob.io/job-name=digits",
    last_rendezvous_time=NOW,
    worker_states=WorkerStates(running=3, failed=1),
    nodes=(
        NodeStatus(name="digits-0", pod_name="digits-0-abcde", node_name="a", rank=0, state="Running", ranks="RR"),
        NodeStatus(
            name="digits-1",
            pod_name="digits-1-fghij",
            reason="Pending",
            start=StartStatus(kind="Cold", reason="FOO differs", first_output_milliseconds=5_100),
            keep=NodeKeepStatus(step=4, round=1, copies=1, bytes=1 << 40, skipped=2, degraded="no answer of a peer"),
        ),
    ),
    master_pod="digits-0-abcde",
    last_failure=LastFailure(time=NOW, round=1, pod_name="digits-1-klmno", rank=2, local_rank=0, exit_code=1),
    keep=KeepStatus(
        step=4,
        round=1,
        copies=1,
        bytes=2 << 40,
        committed_time="2026-01-02T03:04:05Z",
        copy_milliseconds=40,
        persisted_step=3,
        persisted_time="2026-01-02T03:04:05Z",
        persist_error="the disk is full",
    ),
    progress=ProgressStatus(step=5, total=10, percentage=50, metrics={"loss": "0.1"}, last_updated_time=NOW),
    start_time=NOW,
)


@pytest.mark.parametrize("changes", TEMPLATE_CHANGES)
def test_the_template_of_a_running_job_cannot_change(namespace: Namespace, changes: dict[str, Any]) -> None:
    namespace.apply(ELASTIC)
    said = namespace.refused("apply", "-f", "-", stdin=changed(ELASTIC, changes))
    assert f"spec.template: Forbidden: spec.template {WHILE_SUSPENDED}" in said


@pytest.mark.parametrize("changes", TEMPLATE_CHANGES)
def test_the_template_of_a_suspended_job_may_change(namespace: Namespace, changes: dict[str, Any]) -> None:
    namespace.apply(changed(ELASTIC, {"spec.suspend": True}))
    namespace.apply(changed(ELASTIC, {"spec.suspend": True, **changes}))
    resumed = namespace.apply(changed(ELASTIC, {"spec.suspend": False, **changes}))
    assert resumed["spec"]["template"] == changed(ELASTIC, changes)["spec"]["template"]


def test_the_update_that_resumes_a_job_may_change_its_template(namespace: Namespace) -> None:
    namespace.apply(changed(ELASTIC, {"spec.suspend": True}))
    flavour = {"spec.suspend": False, "spec.template.spec.nodeSelector": {"pool": "spot"}}
    stored = namespace.apply(changed(ELASTIC, flavour))
    assert stored["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}
    said = namespace.refused("apply", "-f", "-", stdin=changed(ELASTIC, {"spec.suspend": False}))
    assert WHILE_SUSPENDED in said


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"spec.nprocPerNode": 4}, f"spec.nprocPerNode {WHILE_SUSPENDED}", id="nproc"),
        pytest.param({"spec.keep": {"sizeLimit": "1Gi"}}, f"spec.keep {WHILE_SUSPENDED}", id="keep"),
        pytest.param({"spec.trainerContainer": "trainer"}, f"spec.trainerContainer {WHILE_SUSPENDED}", id="trainer"),
        pytest.param({"spec.managedBy": REMOVED}, "spec.managedBy cannot be changed", id="managed-by-removed"),
        pytest.param({"spec.managedBy": "example.com/other"}, "spec.managedBy cannot be changed", id="managed-by"),
    ],
)
def test_an_immutable_field_cannot_change(namespace: Namespace, changes: dict[str, Any], sentence: str) -> None:
    job = changed(ELASTIC, {"spec.managedBy": "elasticjob.io/operator"})
    namespace.apply(job)
    assert sentence in namespace.refused("apply", "-f", "-", stdin=changed(job, changes))


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param({"mode": "Provided"}, id="mode"),
        pytest.param({"image": "agent:2"}, id="image"),
        pytest.param({"interface": "net1"}, id="interface"),
        pytest.param({"warmStart": "Auto"}, id="warm-start"),
        pytest.param({"shmSizeLimit": "1Gi"}, id="shm"),
        pytest.param({"logSizeLimit": "1Gi"}, id="logs"),
    ],
)
def test_fields_of_the_agent_in_a_pod_may_change_only_while_the_job_is_suspended(
    namespace: Namespace, agent: dict[str, Any]
) -> None:
    namespace.apply(ELASTIC)
    after = changed(ELASTIC, {"spec.agent": {**ELASTIC["spec"].get("agent", {}), **agent}})
    assert f"of spec.agent {WHILE_SUSPENDED}" in namespace.refused("apply", "-f", "-", stdin=after)
    namespace.apply(changed(ELASTIC, {"spec.suspend": True}))
    stored = namespace.apply(changed(after, {"spec.suspend": False}))
    assert stored["spec"]["agent"].items() >= agent.items()


def test_kept_steps_may_change_only_while_the_job_is_suspended(namespace: Namespace) -> None:
    kept = changed(ELASTIC, {"spec.keep": {"sizeLimit": "1Gi"}})
    namespace.apply(kept)
    for keep in ({"sizeLimit": "2Gi"}, {"sizeLimit": "1Gi", "persistTo": "/ckpt"}, REMOVED):
        after = changed(kept, {"spec.keep": keep})
        assert f"spec.keep {WHILE_SUSPENDED}" in namespace.refused("apply", "-f", "-", stdin=after)
    namespace.apply(changed(kept, {"spec.suspend": True}))
    stored = namespace.apply(changed(ELASTIC, {"spec.keep": {"sizeLimit": "1500Mi", "bandwidth": 0}}))
    assert stored["spec"]["keep"] == {"sizeLimit": "1500Mi", "bandwidth": 0}


def test_the_report_period_may_change_while_the_job_runs(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    stored = namespace.apply(changed(ELASTIC, {"spec.agent": {"reportPeriodSeconds": 7}}))
    assert stored["spec"]["agent"]["reportPeriodSeconds"] == 7


def test_policies_of_a_running_job_may_change(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    stored = namespace.apply(changed(ELASTIC, {"spec.maxRestarts": 9, "spec.scaling": {"scaleUpDelaySeconds": 0}}))
    assert (stored["spec"]["maxRestarts"], stored["spec"]["scaling"]) == (9, {"scaleUpDelaySeconds": 0})


@pytest.mark.parametrize("later", [{"spec.activeDeadlineSeconds": 120}, {}], ids=["extended", "removed"])
def test_the_deadline_of_a_running_job_may_change_as_in_a_job(namespace: Namespace, later: dict[str, Any]) -> None:
    namespace.apply(changed(ELASTIC, {"spec.activeDeadlineSeconds": 60}))
    stored = namespace.apply(changed(ELASTIC, later))
    assert stored["spec"].get("activeDeadlineSeconds") == later.get("spec.activeDeadlineSeconds")


def test_kubectl_scale_changes_replicas(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    namespace.kubectl("scale", "ejob/digits", "--replicas=6")
    assert namespace.get("digits")["spec"]["replicas"] == 6


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [(9, "spec.replicas must not be above spec.maxReplicas"), (1, "spec.replicas must not be below spec.minReplicas")],
)
def test_a_scale_outside_the_range_is_refused(namespace: Namespace, replicas: int, sentence: str) -> None:
    namespace.apply(ELASTIC)
    assert sentence in namespace.refused("scale", "ejob/digits", f"--replicas={replicas}")


def test_the_scale_subresource_reads_replicas_and_selector_from_the_status(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    selector = "elasticjob.io/job-name=digits"
    namespace.patch("digits", {"status": {"replicas": 3, "selector": selector}}, "--subresource=status")
    path = f"/apis/elasticjob.io/v1alpha1/namespaces/{namespace.name}/elasticjobs/digits/scale"
    scale = json.loads(namespace.kubectl("get", "--raw", path))
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 3, "selector": selector})


def test_an_update_of_the_spec_leaves_the_status(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    namespace.patch("digits", {"status": {"restarts": 2}}, "--subresource=status")
    namespace.patch("digits", {"spec": {"replicas": 5}, "status": {"restarts": 7}})
    job = namespace.get("digits")
    assert (job["spec"]["replicas"], job["status"]["restarts"]) == (5, 2)


def test_an_update_of_the_status_leaves_spec_and_generation(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    namespace.patch("digits", {"spec": {"replicas": 5}, "status": {"restarts": 1}}, "--subresource=status")
    job = namespace.get("digits")
    assert (job["spec"]["replicas"], job["metadata"]["generation"], job["status"]["restarts"]) == (4, 1, 1)


def test_a_complete_status_is_stored_whole(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    status = status_to_dict(FULL_STATUS)
    namespace.patch("digits", {"status": status}, "--subresource=status")
    assert namespace.get("digits")["status"] == status


def test_the_first_status_of_a_job_is_stored_whole(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    status = status_to_dict(JobStatus())
    namespace.patch("digits", {"status": status}, "--subresource=status")
    assert namespace.get("digits")["status"] == status
