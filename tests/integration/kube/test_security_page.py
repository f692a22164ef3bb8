"""The manifests in docs/security.md, held to their schemas by a real API server.

The CRDs of cert-manager come from the Go module proxy, pinned by their module's checksum.
"""

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticjob_api import names
from tests.faults.apiserver import ROOT, ApiServer
from tests.integration.kube.conftest import await_crd
from tests.integration.kube.namespace import Namespace

pytestmark = pytest.mark.kube

MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
SUM = "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
KINDS = ("certificates", "issuers", "clusterissuers")


def documented(group: str) -> list[dict[str, Any]]:
    """Every manifest of this API group on that page."""
    blocks = (ROOT / "docs" / "security.md").read_text().split("\n\n")
    shown = [textwrap.dedent(block) for block in blocks if f"    apiVersion: {group}/" in block]
    return [found for block in shown for found in yaml.safe_load_all(block) if found]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of cert-manager's sources; never another than the pinned one."""
    if shutil.which("go") is None:
        pytest.fail("cert-manager's CRDs come from the Go module proxy: install Go 1.24 or newer", pytrace=False)
    line = ["go", "mod", "download", "-json", MODULE]
    folder = tmp_path_factory.mktemp("module")
    (folder / "go.mod").write_text("module nothing\n")
    done = subprocess.run(line, cwd=folder, env={**os.environ, "GOWORK": "off"}, capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert found["Sum"] == SUM
    return Path(found["Dir"])


@pytest.fixture(scope="module")
def cert_manager(server: ApiServer, source: Path) -> Iterator[ApiServer]:
    names = [f"{kind}.cert-manager.io" for kind in KINDS]
    files = [source / "deploy" / "crds" / f"cert-manager.io_{kind}.yaml" for kind in KINDS]
    applied = server.kubectl("apply", "--server-side", *(f"--filename={file}" for file in files))
    assert applied.returncode == 0, applied.stderr
    for name in names:
        await_crd(server, name)
    yield server
    server.kubectl("delete", "crd", *names)


def tried(server: ApiServer, manifest: dict[str, Any], namespace: str) -> str:
    """What the API server says to it; empty if it would take it. Nothing is kept."""
    placed = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    done = server.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=placed)
    return done.stderr if done.returncode else ""


def test_the_network_policy_of_jobs_is_one(server: ApiServer, namespace: Namespace) -> None:
    [policy] = documented("networking.k8s.io")
    assert tried(server, policy, namespace.name) == ""
    chosen = policy["spec"]["podSelector"]
    assert chosen == {"matchExpressions": [{"key": names.LABEL_JOB_UID, "operator": "Exists"}]}
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": chosen}]}]


AUTHORITY = documented("cert-manager.io")


def test_an_issuer_and_an_authority_are_shown() -> None:
    assert [manifest["kind"] for manifest in AUTHORITY] == ["Issuer", "Certificate"]


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("manifest", AUTHORITY, ids=lambda manifest: str(manifest["kind"]))
def test_cert_managers_own_schema_takes_it(
    cert_manager: ApiServer, namespace: Namespace, manifest: dict[str, Any]
) -> None:
    assert tried(cert_manager, manifest, namespace.name) == ""


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_field_that_cert_manager_does_not_know_would_be_seen(cert_manager: ApiServer, namespace: Namespace) -> None:
    [_, certificate] = AUTHORITY
    wrong = {**certificate, "spec": {**certificate["spec"], "isAuthority": True}}
    assert 'unknown field "spec.isAuthority"' in tried(cert_manager, wrong, namespace.name)
