"""`elasticjob doctor` on a real API server: a finding with its cure for each fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.kube.namespace import Namespace
from tests.integration.cli.on_a_cluster import Command
from tests.integration.sdk.conftest import Stage

pytestmark = pytest.mark.kube


def findings(command: Command, **options: Any) -> dict[str, dict[str, str]]:
    """Return the last finding for each subject."""
    found = json.loads(command("doctor", "-o", "json", code=None, **options).out)
    return {each["what"]: each for each in found}


def test_a_check_without_a_fault_is_ok(command: Command) -> None:
    found = findings(command)
    for what in ("API server", "CRD", "your rights", "a trial job", "clock"):
        assert found[what]["grade"] == "ok", found[what]


def test_a_trial_job_is_never_created(stage: Stage, command: Command) -> None:
    findings(command)
    assert command("get").out.startswith("no jobs")
    assert stage.namespace.name in findings(command)["a trial job"]["message"]


def test_a_user_without_permissions_sees_which_are_missing(namespace: Namespace, tmp_path: Path) -> None:
    unprivileged = Command(namespace.server.kubeconfig("nobody", namespace=namespace.name), tmp_path)
    ended = unprivileged("doctor", code=1)
    assert f"in {namespace.name} you may not get elasticjobs" in ended.out
    assert "-> ask an administrator for a role with these verbs" in ended.out


def operator(namespace: Namespace, **status: Any) -> None:
    """Create a Deployment like that of the chart, with a status."""
    labels = {"app.kubernetes.io/part-of": "elasticjob", "app.kubernetes.io/component": "operator"}
    pod = {"containers": [{"name": "operator", "image": "elasticjob/operator:9.9.9"}], "serviceAccountName": "nobody"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "elasticjob-operator", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    namespace.apply(body)
    patch = json.dumps({"status": status})
    name = "elasticjob-operator"
    namespace.kubectl("patch", "deployment", name, "--subresource=status", "--type=merge", "-p", patch)


def test_an_operator_without_permissions_and_of_another_version_is_reported(
    namespace: Namespace, command: Command
) -> None:
    operator(namespace, replicas=1, availableReplicas=1, readyReplicas=1, updatedReplicas=1)
    output = list(json.loads(command("doctor", "-o", "json", code=1).out))
    mine = [each["message"] for each in output if namespace.name in each["message"] or "9.9.9" in each["message"]]
    assert any("is ready, image elasticjob/operator:9.9.9" in message for message in mine)
    assert any("the operator 9.9.9" in message for message in mine)
    assert any("may not list elasticjobs, patch elasticjobs/status" in message for message in mine)
    namespace.kubectl("delete", "deployment", "elasticjob-operator")


@pytest.mark.parametrize("kind", ["containers", "initContainers"])  # the second: the agent's image
def test_an_image_that_cannot_be_pulled_is_named(kind: str, stage: Stage, command: Command) -> None:
    meta = {"name": "digits-0-x", "labels": {"elasticjob.io/job-uid": "u"}}
    spec = {"containers": [{"name": "trainer", "image": "my/own:1"}], kind: [{"name": "one", "image": "no/such:1"}]}
    stage.namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no/such:1 is not there"}}
    container = {"name": "one", "image": "no/such:1", "imageID": "", "ready": False, "restartCount": 0}
    output = {"phase": "Pending", f"{kind.removesuffix('s')}Statuses": [{**container, "state": waiting}]}
    patch = json.dumps({"status": output})
    stage.namespace.kubectl("patch", "pod", "digits-0-x", "--subresource=status", "--type=merge", "-p", patch)
    ended = command("doctor", code=1)
    where = f"{stage.namespace.name}/digits-0-x: ImagePullBackOff: no/such:1 is not there"
    assert where in ended.out
    stage.namespace.kubectl("delete", "pod", "digits-0-x", "--force", "--grace-period=0")


def test_without_a_cluster_only_the_machine_is_checked(command: Command) -> None:
    ended = command("doctor", KUBECONFIG="/no/such/file", code=1)
    assert ended.out.splitlines()[0].startswith("ok    this machine")
    assert "FAIL  kubeconfig" in ended.out
    assert command("doctor", "--machine", KUBECONFIG="/no/such/file").code == 0


def keeping_job(name: str, *, volume: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a suspended job that keeps steps; in a volume if one is given."""
    trainer: dict[str, Any] = {"name": "trainer", "image": "my/own:1", "command": ["python", "train.py"]}
    pod: dict[str, Any] = {"containers": [trainer]}
    keep = {"sizeLimit": "1Gi"}
    if volume is not None:
        trainer["volumeMounts"] = [{"name": "shared", "mountPath": "/ckpt"}]
        pod["volumes"] = [{"name": "shared", **volume}]
        keep["persistTo"] = "/ckpt/steps"
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"replicas": 2, "suspend": True, "keep": keep, "template": {"spec": pod}, **spec},
    }


def about_kept_steps(stage: Stage, command: Command, *jobs: dict[str, Any]) -> list[tuple[str, str]]:
    """Create the jobs; return message and cure of each finding about kept steps."""
    for job in jobs:
        stage.namespace.apply(job)
    found = json.loads(command("doctor", "-o", "json", code=None).out)
    for job in jobs:
        stage.namespace.kubectl("delete", "ejob", job["metadata"]["name"])
    return [(each["message"], each["cure"]) for each in found if each["what"] == "kept steps"]


def test_jobs_with_room_for_their_kept_steps_are_ok(stage: Stage, command: Command) -> None:
    [(message, cure)] = about_kept_steps(stage, command, keeping_job("fits"))
    assert (message, cure) == ("1 job with room for them in memory", "")
    assert about_kept_steps(stage, command, keeping_job("off", keep=None)) == []


def test_kept_steps_without_memory_or_nodes_are_reported_with_the_cure(stage: Stage, command: Command) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "doctor-small"}}
    stage.namespace.apply(node)
    patch = json.dumps({"status": {"allocatable": {"memory": "2Gi"}}})
    stage.namespace.kubectl("patch", "node", "doctor-small", "--subresource=status", "--type=merge", "-p", patch)
    narrow = keeping_job("narrow")
    narrow["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    large = keeping_job("large", keep={"sizeLimit": "2Gi"})
    copies = keeping_job("copies", keep={"sizeLimit": "1Gi", "copies": 2})
    found = about_kept_steps(stage, command, narrow, large, copies)
    stage.namespace.kubectl("delete", "node", "doctor-small")
    where = stage.namespace.name
    assert sorted(message.removeprefix(f"{where}/") for message, _ in found) == [
        "copies: spec.keep.copies is 2, and a job of at most 2 nodes has 1 other",
        "large: spec.keep.sizeLimit is 2Gi, and pods have at most 2.0 GiB on a node",
        "narrow: the trainer container has a memory limit of 1Gi, and spec.keep.sizeLimit is 1Gi",
    ]
    assert [cure for _, cure in found if cure in {"lower it", "set it to 1, or raise spec.maxReplicas"}] == [
        "set it to 1, or raise spec.maxReplicas",
        "lower it",
    ]


def test_a_claim_for_persisted_steps_that_is_missing_or_not_shared_is_reported(stage: Stage, command: Command) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "checkpoints"}}
    found = about_kept_steps(stage, command, keeping_job("disk", volume=claim))
    where = f"{stage.namespace.name}/disk: claim checkpoints of spec.keep.persistTo"
    assert found == [(f"{where} does not exist", "create it: the pods wait")]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "checkpoints"}, "spec": spec}
    stage.namespace.apply(body)
    found = about_kept_steps(stage, command, keeping_job("disk", volume=claim))
    cure = "choose one with ReadWriteMany: pods on several nodes write there"
    assert found == [(f"{where} has the access modes ReadWriteOnce", cure)]
    alone = keeping_job("disk", volume=claim, replicas=1, keep={"sizeLimit": "1Gi", "persistTo": "/ckpt", "copies": 0})
    assert about_kept_steps(stage, command, alone) == [("1 job with room for them in memory", "")]
    stage.namespace.kubectl("delete", "pvc", "checkpoints", "--wait=false")
