"""The CRD of the repository on an API server, and the chart in dry runs. All tests share the other fixtures."""

import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from testing.servers.apiserver import ROOT, ApiServer
from testing.waiting import scaled

_BUILD_S = 900.0
"""Seconds for a first use of Helm, which may have to be built from source."""

Helm = Callable[..., str]

CRD = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"


@pytest.fixture
def chart_namespace(crd: ApiServer) -> Iterator[str]:
    """Return a namespace for a release of the test's own."""
    name = f"charted-{secrets.token_hex(4)}"
    crd.kubectl("create", "namespace", name)
    yield name
    crd.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def helm(crd: ApiServer, chart_namespace: str) -> Helm:
    """Run helm for the release x there, with server-side dry runs; return its output."""
    found = subprocess.run(
        [ROOT / "hack" / "kube-tools", "helm"], stdout=subprocess.PIPE, check=True, timeout=scaled(_BUILD_S)
    )
    program = found.stdout.decode().strip().removeprefix("HELM=")

    def run(verb: str, *values: str) -> str:
        sets = [word for value in ("crds.install=false", *values) for word in ("--set", value)]
        where = ("--namespace", chart_namespace, "--kubeconfig", str(crd.kubeconfig()))
        tries = () if verb == "template" else ("--dry-run=server", "--take-ownership")
        command = [program, verb, "x", str(ROOT / "charts" / "elasticjob"), *where, *tries, *sets]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=scaled(60)).stdout

    return run


def install_rendered(server: ApiServer, namespace: str, rendered: str, *kinds: str) -> None:
    """Create what the chart rendered of these kinds; without any, the StatefulSet."""
    for found in yaml.safe_load_all(rendered):
        if found and found["kind"] in (kinds or ("StatefulSet",)):
            done = server.kubectl("apply", "-f", "-", namespace=namespace, stdin=found)
            assert done.returncode == 0, done.stderr
