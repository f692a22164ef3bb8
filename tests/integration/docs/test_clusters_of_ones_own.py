"""The commands of the pages for docker and an empty cluster, typed from the clone to the last `down`, on real kind.

The test has its own cluster with its own name, so `kind` finds it by KIND_CLUSTER_NAME. The commands are those of the
pages, except for the values of the reader: URL, registry, node and free ports.
"""

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.walkthrough import steps
from elasticjob_agent.net.ports import free_port
from testing.waiting import eventually, scaled
from tests.integration.docs.registry import registry, tags
from tests.integration.docs.typed import EMPTY, output_of, typed
from tests.unit.docs.commands import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
NAME = "docs"
LONG_S = 2400.0
"""Seconds: images, nodes and programs may have to be built."""
PAGE = (ROOT / "docs" / "quickstart-kubernetes.md").read_text()
KIND_PART = PAGE[PAGE.index("### With kind") : PAGE.index("## 2. ")]
REGISTRY_PART = PAGE[PAGE.index("### With your cluster and registry") : PAGE.index("### With kind")]
READY = "kubectl wait ejob/digits --for=jsonpath='{.status.phase}'=Running --timeout=60s"
HELM = "helm install elasticjob charts/elasticjob --namespace elasticjob-system --create-namespace"
PORT_FORWARD = "kubectl --namespace elasticjob-system port-forward deployment/elasticjob-operator 8081"


@dataclass
class Shell:
    """A reader's terminal: exports, variables and the working directory remain."""

    folder: Path
    environ: dict[str, str]
    before: list[str] = field(default_factory=list)

    def type(self, command: str, **values: str) -> str:
        """Return the output of a command, which must succeed."""
        return output_of(self.start(command, **values), within_s=LONG_S)

    def keep(self, command: str, **values: str) -> None:
        """Type a command that later commands need."""
        self.type(command, **values)
        for name, value in values.items():
            command = command.replace(name, value)
        self.before.append(command)

    def start(self, command: str, **values: str) -> "subprocess.Popen[str]":
        """Type a command without waiting for its end."""
        return typed(command, self.folder, values or EMPTY, environ=self.environ, before=tuple(self.before))

    def look(self, command: str) -> str:
        """Run a command that is on no page, to check a result; return its output."""
        line = "\n".join(("set -e", *self.before, command))
        done = subprocess.run(("bash", "-c", line), cwd=self.folder, env={**os.environ, **self.environ}, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=scaled(LONG_S))  # fmt: skip
        return done.stdout.strip()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Yield a shell in an empty folder, on a machine with docker; restore both at the end."""
    folder = tmp_path_factory.mktemp("reader")
    had_docker = subprocess.run(("docker", "info"), capture_output=True, check=False).returncode == 0
    subprocess.run((ROOT / "hack/kind/docker-up",), check=True, timeout=scaled(LONG_S))
    made = Shell(folder, {"KIND_CLUSTER_NAME": NAME, "KUBECONFIG": str(folder / "kubeconfig")})
    made.environ["PATH"] = _path_with_helm()
    yield made
    subprocess.run((ROOT / "hack/kind/down", NAME), check=True, timeout=scaled(LONG_S))
    if not had_docker:
        subprocess.run((ROOT / "hack/kind/docker-down",), check=True, timeout=scaled(LONG_S))


def _path_with_helm() -> str:
    found = subprocess.run((ROOT / "hack/kube-tools", "helm"), stdout=subprocess.PIPE, text=True, check=True)
    return f"{Path(found.stdout.strip().removeprefix('HELM=')).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def cluster(shell: Shell) -> Iterator[Shell]:
    """Clone the project, build its images, and load them into the nodes of a new cluster."""
    shell.keep("git clone URL elasticjob && cd elasticjob", URL=str(ROOT))
    shell.before[-1] = "cd elasticjob"
    assert "elasticjob/operator:dev" in shell.type("images/build")
    shell.type("hack/kind/up", **{"hack/kind/up": f"hack/kind/up {NAME}"})
    shell.keep("export PATH=${ELASTICJOB_CACHE:-$HOME/.cache/elasticjob}/bin:$PATH")
    shell.type("kind load docker-image elasticjob/{operator,agent,etcd}:dev elasticjob/digits:local")
    yield shell
    shell.type("hack/kind/down", **{"hack/kind/down": f"hack/kind/down {NAME}"})
    assert NAME not in shell.look("kind get clusters 2>&1").split()


def test_a_job_installed_with_the_manifests_survives_a_drain_and_a_new_operator(cluster: Shell) -> None:
    shell = cluster
    shell.type("kubectl apply --server-side -f crds -f deploy")
    for step in steps(KIND_PART[KIND_PART.index("### Is it ready?") :]):
        assert shell.type(" ".join(step.command.split()))
    assert "created" in shell.type("kubectl apply -f examples/digits/job.yaml")
    _long(shell)
    shell.type(READY)
    assert "digits" in shell.type("kubectl get ejob")
    assert "restarted" in shell.type("kubectl -n elasticjob-system rollout restart deployment/elasticjob-operator")
    shell.look("kubectl -n elasticjob-system rollout status deployment/elasticjob-operator")
    assert "watching all namespaces" in shell.type("kubectl -n elasticjob-system logs deployment/elasticjob-operator")
    node = shell.look("kubectl get pods -l elasticjob.io/slot=0 -o jsonpath={.items[0].spec.nodeName}")
    assert "drained" in shell.type("kubectl drain NODE --ignore-daemonsets --delete-emptydir-data", NODE=node)
    shell.look(f"kubectl uncordon {node}")
    shell.look("kubectl wait ejob/digits --for=jsonpath='{.status.readyReplicas}'=3 --timeout=120s")
    shell.type("kubectl delete ejob digits")
    shell.type("kubectl delete -f deploy -f crds")


def _long(shell: Shell) -> None:
    """Create the job of the page, with more work than this test lasts."""
    shell.look('kubectl delete ejob digits; sed \'s/"20"/"40000"/\' examples/digits/job.yaml | kubectl apply -f -')


def test_the_chart_runs_a_job_and_the_web_page(cluster: Shell) -> None:
    shell = cluster
    assert "STATUS: deployed" in shell.type(f"{HELM} --wait")
    assert "Succeeded" in shell.type("helm test elasticjob --namespace elasticjob-system")
    shell.type("kubectl apply -f examples/digits/job.yaml")
    shell.type(READY)
    assert "digits" in shell.type("kubectl get ejob")
    shell.type(
        "helm upgrade --install elasticjob charts/elasticjob --namespace elasticjob-system --reset-then-reuse-values "
        "--set ui.enabled=true"
    )
    shell.look("kubectl -n elasticjob-system rollout status deployment/elasticjob-operator --timeout=120s")
    port = free_port()
    with shell.start(PORT_FORWARD, **{"operator 8081": f"operator {port}:8081"}) as forward:
        eventually(lambda: b"<html" in _fetched(port), within_s=60, what="the page", pause_s=0.2)
        forward.terminate()
    shell.type("kubectl delete ejob --all --all-namespaces")
    shell.type("helm uninstall elasticjob --namespace elasticjob-system")
    shell.type("kubectl --namespace elasticjob-system delete secret elasticjob-etcd-ca")
    shell.type("kubectl delete crd elasticjobs.elasticjob.io")


def _fetched(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/", timeout=10) as answer:
            page: bytes = answer.read()
            return page.lower()
    except OSError:
        return b""


def test_images_are_pushed_and_the_chart_uses_them(cluster: Shell, tmp_path: Path) -> None:
    shell = cluster
    pushed = "for image in operator:dev agent:dev etcd:dev digits:local; do"
    with registry(tmp_path) as host:
        named = f"REGISTRY={host}/team"
        shell.keep("REGISTRY=registry.example.com/team", **{"REGISTRY=registry.example.com/team": named})
        (push,) = (step.command for step in steps(REGISTRY_PART) if "docker push" in step.command)
        shell.type(pushed, **{pushed: push})
        names = ("operator", "agent", "etcd", "digits")
        assert [tags(host, f"team/{name}") for name in names] == [["dev"], ["dev"], ["dev"], ["local"]]
    # kind's nodes do not reach the registry, so the images that have its name are loaded.
    shell.look("kind load docker-image $REGISTRY/operator:dev $REGISTRY/agent:dev $REGISTRY/etcd:dev")
    command = (
        f"{HELM} --set operator.image.repository=$REGISTRY/operator --set agent.image.repository=$REGISTRY/agent "
        "--set etcd.image.repository=$REGISTRY/etcd --wait"
    )
    assert "STATUS: deployed" in shell.type(command)
    images = shell.look("kubectl -n elasticjob-system get pods -o jsonpath='{..image}'")
    assert f"{host}/team/operator:dev" in images
