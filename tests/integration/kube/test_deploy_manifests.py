"""`deploy/`: a real API server accepts it, it fits restricted Pod Security, and it grants few rights."""

import json
import urllib.request
from typing import Any

import pytest
import yaml

from testing.kube.stack import DEPLOY, SYSTEM, KubeStack
from testing.network.ports import unused_port
from testing.processes.process import ROOT
from testing.servers.apiserver import ApiServer
from tests.integration.kube.conftest import CRD

pytestmark = pytest.mark.kube


def documents() -> list[dict[str, Any]]:
    return [d for path in sorted(DEPLOY.glob("*.yaml")) for d in yaml.safe_load_all(path.read_text())]


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [document for document in documents() if document["kind"] in kinds]


@pytest.fixture
def applied(crd: ApiServer) -> ApiServer:
    """Apply everything of the project with the one command of the documentation."""
    done = crd.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD.parent), "-f", str(DEPLOY))
    assert done.returncode == 0, done.stderr
    return crd


def test_one_command_applies_all_of_it_without_a_warning(applied: ApiServer) -> None:
    command = ("apply", "--server-side", "--force-conflicts", "--dry-run=server")
    done = applied.kubectl(*command, "-f", str(CRD.parent), "-f", str(DEPLOY))
    assert done.returncode == 0, done.stderr
    assert "Warning: would violate" not in done.stderr
    assert len(done.stdout.splitlines()) == len(documents()) + 1


@pytest.mark.parametrize("name", ["elasticjob-operator", "elasticjob-etcd"])
def test_the_restricted_namespace_admits_the_pods(applied: ApiServer, name: str) -> None:
    [owner] = [d for d in of_kind("Deployment", "StatefulSet") if d["metadata"]["name"] == name]
    template = owner["spec"]["template"]
    meta = {"name": "try", "namespace": SYSTEM, "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    done = applied.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod)
    assert done.returncode == 0, done.stderr
    container = template["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["imagePullPolicy"] == "IfNotPresent"


def test_the_restricted_namespace_refuses_another_pod(applied: ApiServer) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try", "namespace": SYSTEM}, "spec": spec}
    done = applied.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod)
    assert "violates PodSecurity" in done.stderr


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        pytest.param("create", "pods", True, id="create pods"),
        pytest.param("patch", "elasticjobs.elasticjob.io/status", True, id="patch the status"),
        pytest.param("patch", "elasticjobs.elasticjob.io", False, id="patch no job"),
        pytest.param("update", "pods", False, id="update no pod"),
        pytest.param("get", "secrets", False, id="get no secret"),
        pytest.param("update", "leases.coordination.k8s.io", False, id="update no lease but its own"),
        pytest.param("create", "pods/exec", False, id="exec into no pod"),
        pytest.param("list", "namespaces", False, id="list no namespace"),
        pytest.param("list", "nodes", False, id="list no node"),
        pytest.param("create", "clusterroles", False, id="create no role"),
    ],
)
def test_the_operator_may(applied: ApiServer, verb: str, resource: str, allowed: bool) -> None:  # noqa: FBT001 -- a table
    account = f"system:serviceaccount:{SYSTEM}:elasticjob-operator"
    kind, _, part = resource.partition("/")
    asked = applied.kubectl("auth", "can-i", verb, kind, f"--subresource={part}", f"--as={account}", "--all-namespaces")
    assert asked.stdout.strip() == ("yes" if allowed else "no")


def test_the_role_has_no_wildcard() -> None:
    [role] = of_kind("ClusterRole")
    words = [word for rule in role["rules"] for field in ("apiGroups", "resources", "verbs") for word in rule[field]]
    assert "*" not in words


@pytest.mark.usefixtures("applied")
def test_the_operators_flags_are_those_it_knows_and_its_probe_answers(rig: KubeStack) -> None:
    [deployment] = of_kind("Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    port = unused_port()
    options = [flag.replace(":8080/", f":{port}/") for flag in container["args"] if "etcd" not in flag]
    rig.start_operator(*options, "--lease-namespace", SYSTEM)
    path = container["livenessProbe"]["httpGet"]["path"]
    rig.until("an answer", lambda: answer(f"http://127.0.0.1:{port}{path}") == {"operator": "running"})
    rig.until("ready", lambda: answer(f"http://127.0.0.1:{port}/readyz") == {"ready": True, "role": "leader"})


def answer(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)
    except OSError as error:
        return str(error)


def test_the_images_are_those_of_images_build() -> None:
    named = {
        c["image"] for d in of_kind("Deployment", "StatefulSet") for c in d["spec"]["template"]["spec"]["containers"]
    }
    made = (ROOT / "images" / "build").read_text()
    assert all(name.partition(":")[0] in made for name in named)
