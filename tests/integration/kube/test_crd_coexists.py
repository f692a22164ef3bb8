"""Another group's CRD with the same kind and plural (as DLRover's), and operators beside CRDs of another age."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.faults.apiserver import ApiServer
from tests.integration.kube.conftest import CRD, await_crd
from tests.integration.kube.jobs import waiting_job
from tests.integration.kube.manifests import ELASTIC
from tests.integration.kube.namespace import Namespace
from tests.integration.kube.rig import Rig

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


def test_the_operator_acts_on_its_own_group_only(foreign: ApiServer, rig: Rig) -> None:
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
    """The CRD is the present one again afterwards."""
    yield crd
    apply(crd, current())


def test_a_new_operator_beside_an_old_crd_keeps_its_pods_and_says_what_that_crd_has_words_for(
    restored: ApiServer, rig: Rig
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


def test_an_old_operator_beside_a_new_crd_keeps_its_pods(restored: ApiServer, rig: Rig) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    pods = rig.until("a pod", rig.pod_names)
    new = copy.deepcopy(current())
    status_of(new)["ofTomorrow"] = {"type": "string"}
    properties = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["ofTomorrow"] = {"type": "integer", "default": 7}
    apply(restored, new)
    rig.namespace.patch("j", {"spec": {"maxRestarts": 9}})
    generation = rig.job()["metadata"]["generation"]
    rig.until("the status of now", lambda: rig.status().get("observedGeneration") == generation)
    assert rig.pod_names() == pods
