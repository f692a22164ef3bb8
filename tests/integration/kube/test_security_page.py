"""The manifests in docs/security.md, checked against their schemas by a real API server.

`test_cert_manager.py` tests their effect with cert-manager.
"""

from typing import Any

import pytest

from elasticjob_api import constants
from testing.doc_snippets import manifests
from testing.kube.namespace import Namespace
from testing.servers.apiserver import ApiServer
from testing.servers.cert_manager import install_crds, source

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def cert_manager(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    install_crds(server, source(tmp_path_factory.mktemp("module")))
    return server


def tried(server: ApiServer, manifest: dict[str, Any], namespace: str) -> str:
    """Return the API server's error for the manifest; empty if it would accept it. It is a dry run."""
    placed = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    done = server.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=placed)
    return done.stderr if done.returncode else ""


def test_the_network_policy_of_jobs_is_valid(server: ApiServer, namespace: Namespace) -> None:
    [policy] = manifests("security.md", "networking.k8s.io")
    assert tried(server, policy, namespace.name) == ""
    chosen = policy["spec"]["podSelector"]
    assert chosen == {"matchExpressions": [{"key": constants.LABEL_JOB_UID, "operator": "Exists"}]}
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": chosen}]}]


AUTHORITY = manifests("security.md", "cert-manager.io")


def test_an_issuer_and_an_authority_are_shown_and_the_same_for_etcd() -> None:
    assert [manifest["kind"] for manifest in AUTHORITY] == ["Issuer", "Certificate"] * 2


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("manifest", AUTHORITY, ids=lambda manifest: "{kind} {metadata[name]}".format(**manifest))
def test_cert_managers_own_schema_accepts_it(
    cert_manager: ApiServer, namespace: Namespace, manifest: dict[str, Any]
) -> None:
    assert tried(cert_manager, manifest, namespace.name) == ""


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_an_unknown_field_of_cert_manager_would_be_detected(cert_manager: ApiServer, namespace: Namespace) -> None:
    [_, certificate, *_] = AUTHORITY
    wrong = {**certificate, "spec": {**certificate["spec"], "isAuthority": True}}
    assert 'unknown field "spec.isAuthority"' in tried(cert_manager, wrong, namespace.name)
