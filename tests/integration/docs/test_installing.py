"""The commands of an administrator on the pages, on an API server of their own: they change the whole cluster.

No controller runs, so no applied object becomes a pod; e2e tests that. For a deleted namespace, the test writes what
its controller would write.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.walkthrough import steps
from testing.servers.apiserver import ApiServer, Programs
from testing.waiting import eventually
from tests.integration.docs.conftest import with_cluster
from tests.integration.docs.typed import EMPTY, output_of, typed
from tests.unit.docs.commands import ROOT

pytestmark = pytest.mark.kube
SYSTEM = "elasticjob-system"
CRD = "elasticjobs.elasticjob.io"
Type = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def type_(own_server: ApiServer, programs: Programs) -> Type:
    """Return a function that types a command as an administrator in the project's folder."""
    found = subprocess.run([ROOT / "hack" / "kube-tools", "helm"], stdout=subprocess.PIPE, text=True, check=True)
    helm = Path(found.stdout.strip().removeprefix("HELM="))
    environ = dict(with_cluster(programs, own_server.kubeconfig()))
    environ["PATH"] = f"{helm.parent}:{environ['PATH']}"
    return lambda command, values=EMPTY: typed(command, ROOT, values, environ=environ)


@pytest.fixture
def system(own_server: ApiServer) -> None:
    """Create the namespace of the system."""
    assert own_server.kubectl("create", "namespace", SYSTEM).returncode == 0


def finalized(server: ApiServer) -> bool:
    """Finish the deletion of namespaces, as their controller does when they are empty; return whether it is done."""
    found = server.kubectl("get", "namespace", SYSTEM, "-o", "jsonpath={.status.phase}").stdout
    if found == "Terminating":
        empty = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}, "spec": {"finalizers": []}}
        path = f"/api/v1/namespaces/{SYSTEM}/finalize"
        return server.kubectl("replace", "--raw", path, "-f", "-", stdin=empty).returncode == 0
    return False


def test_the_manifests_are_applied_kept_restricted_and_removed(own_server: ApiServer, type_: Type) -> None:
    output_of(type_("kubectl apply --server-side -f crds"))
    assert "deployment.apps/elasticjob-operator serverside-applied" in output_of(
        type_("kubectl apply --server-side -f crds -f deploy")
    )
    label = f"kubectl label namespace {SYSTEM} pod-security.kubernetes.io/enforce=restricted"
    assert "would violate" not in output_of(type_(label))
    removing = type_("kubectl delete -f deploy -f crds")
    eventually(lambda: finalized(own_server), within_s=60, what=f"the namespace {SYSTEM} being deleted")
    assert f'customresourcedefinition.apiextensions.k8s.io "{CRD}" deleted' in output_of(removing)


def test_the_manifests_are_applied_with_images_of_a_registry_of_ones_own(own_server: ApiServer, type_: Type) -> None:
    page = (ROOT / "docs" / "quickstart-kubernetes.md").read_text()
    found = steps(page[page.index("### With your cluster and registry") : page.index("### With kind")])
    registry, push, crds, apply = (step.command for step in found)
    assert "docker push" in push  # there is no registry to push to
    output_of(type_("REGISTRY=registry.example.com/team", {"team": f"team\n{crds}\n{apply}"}))
    assert registry == "REGISTRY=registry.example.com/team"
    images = re.findall(
        r"image[:=] ?(\S+)", own_server.kubectl("get", "deploy,sts", "-o", "yaml", namespace=SYSTEM).stdout
    )
    named = {image.rpartition("/")[2]: image for image in images}
    assert named["operator:dev"] == "registry.example.com/team/operator:dev"
    assert named["agent:dev"] == "registry.example.com/team/agent:dev"
    assert "elasticjob/etcd" not in " ".join(images)


@pytest.mark.usefixtures("system")
def test_the_chart_is_upgraded_with_a_page_and_with_tls_used_and_removed(own_server: ApiServer, type_: Type) -> None:
    chart = "helm upgrade --install elasticjob charts/elasticjob"
    output_of(type_(f"{chart} --namespace {SYSTEM} --reset-then-reuse-values --set ui.enabled=true"))
    assert "8081" in own_server.kubectl("get", "deploy", "-o", "yaml", namespace=SYSTEM).stdout
    output_of(type_(f"{chart} -n {SYSTEM} --reset-then-reuse-values --set etcd.tls.enabled=true"))
    assert "8081" in own_server.kubectl("get", "deploy", "-o", "yaml", namespace=SYSTEM).stdout
    output_of(type_("helm upgrade … --set etcd.tls.caSecret=elasticjob-ca",
               {"helm upgrade …": f"{chart} -n {SYSTEM}"}))  # fmt: skip
    assert "elasticjob.elasticjob.io/digits created" in output_of(type_("kubectl apply -f examples/digits/job.yaml"))
    assert 'elasticjob.elasticjob.io "digits" deleted' in output_of(type_("kubectl delete ejob --all --all-namespaces"))
    assert 'release "elasticjob" uninstalled' in output_of(type_(f"helm uninstall elasticjob --namespace {SYSTEM}"))
    assert f'"{CRD}" deleted' in output_of(type_(f"kubectl delete crd {CRD}"))
    output_of(type_(f"kubectl --namespace {SYSTEM} delete secret elasticjob-etcd-ca"))


def etcds_service(server: ApiServer) -> str:
    """Return the Service of the StatefulSet, which differs between one and three members."""
    etcd = server.kubectl("get", "sts", "elasticjob-etcd", "-o", "jsonpath={.spec.serviceName}", namespace=SYSTEM)
    return etcd.stdout


def changing_members() -> list[str]:
    """Return the commands of the page: two for a release, two for an installation by `deploy/`."""
    page = (ROOT / "docs" / "etcd.md").read_text()
    return [step.command for step in steps(page)]


@pytest.mark.usefixtures("system")
def test_a_release_gets_three_members_of_etcd_as_the_page_has_it(own_server: ApiServer, type_: Type) -> None:
    delete, upgrade, _, _ = changing_members()
    output_of(type_(upgrade, {"members=auto": "members=1"}))
    output_of(type_(upgrade))
    assert etcds_service(own_server) == "elasticjob-etcd", "an upgrade alone keeps the number"
    output_of(type_(delete))
    output_of(type_(upgrade))
    assert etcds_service(own_server) == "elasticjob-etcd-peers"


@pytest.mark.usefixtures("system")
def test_an_installation_of_deploy_gets_three_members_as_the_page_has_it(own_server: ApiServer, type_: Type) -> None:
    _, upgrade, delete, apply = changing_members()
    older = "--set etcd.members=1 --show-only templates/etcd/statefulset.yaml | kubectl apply --server-side -f -"
    output_of(
        type_(upgrade, {"upgrade --install": "template", "--reset-then-reuse-values --set etcd.members=auto": older})
    )
    refused = output_of(type_(apply), code=1)
    assert "updates to statefulset spec for fields other than" in refused
    assert "service/elasticjob-etcd-peers serverside-applied" in refused
    assert etcds_service(own_server) == "elasticjob-etcd"
    output_of(type_(delete))
    output_of(type_(apply))
    assert etcds_service(own_server) == "elasticjob-etcd-peers"
