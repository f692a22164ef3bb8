"""Another group's CRD with the same kind and plural (as DLRover's), and operators with older and newer CRDs."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testing.kube.jobs import waiting_job
from testing.kube.manifests import ELASTIC
from testing.kube.namespace import Namespace
from testing.kube.stack import KubeStack
from testing.servers.apiserver import ApiServer, await_crd
from tests.integration.kube.conftest import CRD

pytestmark = pytest.mark.kube

FOREIGN_GROUP = "elastic.iml.github.io"
FOREIGN = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"elasticjobs.{FOREIGN_GROUP}"},
    "spec": {
        "group": FOREIGN_GROUP,
        "scope": "Namespaced",
        "names": {"kind": "ElasticJob", "plural": "elasticjobs", "singular": "elasticjob"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture
def foreign(crd: ApiServer) -> Iterator[ApiServer]:
    apply(crd, FOREIGN)
    yield crd
    crd.kubectl("delete", "crd", f"elasticjobs.{FOREIGN_GROUP}")


def apply(server: ApiServer, manifest: Any) -> None:
    done = server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)
    assert done.returncode == 0, done.stderr
    await_crd(server, manifest["metadata"]["name"])


def test_each_group_has_its_own_jobs(foreign: ApiServer, namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    theirs = {"apiVersion": f"{FOREIGN_GROUP}/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "theirs"}}
    done = foreign.kubectl("create", "-f", "-", namespace=namespace.name, stdin=theirs)
    assert done.returncode == 0, done.stderr
    assert namespace.kubectl("get", "ejob", "-o", "name").split() == ["elasticjob.elasticjob.io/digits"]
    found = namespace.kubectl("get", f"elasticjobs.{FOREIGN_GROUP}", "-o", "name").split()
    assert found == [f"elasticjob.{FOREIGN_GROUP}/theirs"]


def test_the_operator_acts_on_its_own_group_only(foreign: ApiServer, rig: KubeStack) -> None:
    theirs = {**waiting_job(rig, "theirs"), "apiVersion": f"{FOREIGN_GROUP}/v1alpha1"}
    rig.start_operator()
    done = foreign.kubectl("create", "-f", "-", namespace=rig.namespace.name, stdin=theirs)
    assert done.returncode == 0, done.stderr
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    assert pod.startswith("j-0-")
    shown = rig.namespace.kubectl("get", f"elasticjobs.{FOREIGN_GROUP}", "theirs", "-o", "jsonpath={.status}")
    assert shown == ""


def current() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(CRD.read_text())
    return found


def status_of(crd: dict[str, Any]) -> dict[str, Any]:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    found: dict[str, Any] = schema["properties"]
    return found


@pytest.fixture
def restored(crd: ApiServer) -> Iterator[ApiServer]:
    """Install the present CRD again afterwards."""
    yield crd
    apply(crd, current())


def test_a_new_operator_with_an_old_crd_keeps_its_pods_and_writes_the_fields_of_that_crd(
    restored: ApiServer, rig: KubeStack
) -> None:
    old = copy.deepcopy(current())
    for name in ("reason", "message", "lastScaleTime", "restartsCountTowardsMax"):
        del status_of(old)[name]
    apply(restored, old)
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    assert rig.phase("Pending")["desiredReplicas"] == 1
    apply(restored, current())
    rig.namespace.kubectl("scale", "ejob", "j", "--replicas=2")
    rig.until("a status of now", lambda: rig.status().get("desiredReplicas") == 2)
    assert pod in rig.pod_names()


def newer() -> dict[str, Any]:
    """The CRD of a later version that breaks a rule: its new field has a default, so each stored job has it."""
    new = copy.deepcopy(current())
    status_of(new)["ofTomorrow"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["ofTomorrow"] = {"type": "integer", "default": 7}
    return new


def test_an_old_operator_with_a_new_crd_acts_only_on_jobs_that_have_begun(restored: ApiServer, rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    apply(restored, newer())
    rig.until("the default", lambda: rig.job()["spec"].get("ofTomorrow") == 7)
    rig.kill_operator()  # its watch may use the old schema for minutes
    rig.start_operator()
    named = rig.until("the field named", lambda: rig.condition("UnknownFields").get("message"))
    assert "spec.ofTomorrow" in str(named)
    assert (rig.condition("UnknownFields")["reason"], rig.pod_names()) == ("Ignored", [pod])
    rig.delete_pod(pod)
    rig.until("a replacement", lambda: rig.pod_names() not in ([], [pod]))
    rig.namespace.apply(waiting_job(rig, "late"))
    rig.until("the other waits", lambda: rig.status("late").get("reason") == "UnknownFields")
    assert rig.namespace.row("late")["REASON"] == "UnknownFields"
    assert all(name.startswith("j-") for name in rig.pod_names())
    rig.patch_job("j", {"suspend": True})
    rig.until("no pods", lambda: not rig.pods())
    assert [reason for reason, _ in rig.events() if reason == "UnknownFields"] == ["UnknownFields"] * 2


def test_an_old_operator_keeps_the_status_fields_of_a_new_one(restored: ApiServer, rig: KubeStack) -> None:
    """Both write as one manager: the API server removes fields that the later one does not apply again."""
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    rig.until("a pod", rig.pod_names)
    rig.phase("Pending")
    rig.kill_operator()
    apply(restored, newer())
    rig.until("the new schema", lambda: rig.job()["spec"].get("ofTomorrow") == 7)
    said = {**rig.status(), "phase": "Dreaming", "ofTomorrow": {"v": 1, "a": ["b"]}}
    said["conditions"].append({**said["conditions"][0], "type": "Paused", "status": "Maybe"})
    body = {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "j"}, "status": said}
    manager = ("--server-side", "--force-conflicts", "--field-manager=elasticjob-operator", "--subresource=status")
    rig.namespace.kubectl("apply", *manager, "-f", "-", stdin=body)
    rig.start_operator()
    rig.patch_job("j", {"replicas": 2})
    rig.until("a status of now", lambda: rig.status().get("desiredReplicas") == 2)
    status = rig.status()
    assert (status["ofTomorrow"], status["phase"]) == ({"v": 1, "a": ["b"]}, "Pending")
    assert rig.condition("Paused")["status"] == "Maybe"
    assert status["startTime"] == said["startTime"]
