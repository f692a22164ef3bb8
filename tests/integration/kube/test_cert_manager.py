"""The steps of docs/security.md for cert-manager: its controllers issue all certificates, and a job runs with them.

A real API server, cert-manager's own controllers, a real etcd and a real operator with the release's permissions.
"""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.interface import Endpoint
from elasticjob_operator.tls.ca import CertificateAuthority
from testing.doc_snippets import manifests
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.kube.tls_stack import Pods, Release, read_secret
from testing.servers.apiserver import ApiServer
from testing.servers.cert_manager import CertManager, install_crds, source
from testing.servers.secured_etcd import ADDRESS, SecuredEtcd, program
from testing.waiting import eventually

pytestmark = [pytest.mark.kube, pytest.mark.nightly, pytest.mark.timeout(2000)]

CA, SERVER = "elasticjob-ca", "elasticjob-etcd"


@pytest.fixture(scope="module")
def manager(crd: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertManager]:
    """Run cert-manager with every manifest of the page; only the address is that of the tests' etcd."""
    folder = tmp_path_factory.mktemp("cert-manager")
    install_crds(crd, source(folder))
    made = CertManager(crd, folder)
    try:
        for manifest in manifests("security.md", "cert-manager.io"):
            if "dnsNames" in manifest["spec"]:
                manifest["spec"] |= {"ipAddresses": [ADDRESS]}
            made.apply(manifest)
        for certificate in (CA, SERVER):
            made.issued(certificate)
        yield made
    finally:
        made.close()


@pytest.fixture
def release(rig: KubeStack, manager: CertManager, request: pytest.FixtureRequest) -> Iterator[Release]:
    """Return a release with cert-manager's authority, and the Secret of the test's parameter for a running etcd."""
    assert manager
    folder = rig.folder / "secured"
    folder.mkdir()
    kept = read_secret(rig.namespace.server, CA)
    etcd = SecuredEtcd(folder, program(), CertificateAuthority(kept["tls.crt"], kept["tls.key"]))
    made = Release(rig, etcd, authority=CA, server=getattr(request, "param", ""))
    rig.etcd = etcd.issue_certificate("root")
    yield made
    etcd.kill()


@pytest.fixture
def pods(release: Release) -> Iterator[Pods]:
    made = Pods(release)
    yield made
    made.close()


def mount(release: Release, name: str) -> None:
    """Write the current files of a Secret to the folder that etcd reads."""
    folder = release.etcd.folder / "server"
    for file, text in release.secret(name).items():
        (folder / "aside").write_bytes(text)
        (folder / "aside").replace(folder / file)


def served(etcd: SecuredEtcd) -> bytes:
    """Return the certificate that etcd presents."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((ADDRESS, etcd.port)))


def leaf(kept: dict[str, bytes]) -> bytes:
    """Return the first certificate of a Secret."""
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(kept["tls.crt"].decode().partition(end)[0] + end)


def of_job(release: Release, uid: str) -> dict[str, bytes]:
    """Return the current Secret of the job j."""
    return release.secret(f"j-etcd-{uid[:8]}", release.stack.namespace.name)


async def opens(endpoint: Endpoint) -> str:
    """Return the error of a call to etcd; empty if it was answered or is only not permitted."""
    client = EtcdClient(endpoint)
    try:
        await client.get("health")
    except RequestRejected as error:
        return str(error)
    finally:
        await client.close()
    return ""


def test_a_job_runs_on_an_authority_of_cert_manager(release: Release, pods: Pods, rig: KubeStack) -> None:
    release.start_operator()
    rig.until("etcd's certificate", lambda: "tls.crt" in release.secret(release.server))
    mount(release, release.server)
    eventually(lambda: served(release.etcd) == leaf(release.secret(release.server)), within_s=20, what="it is served")
    uid = rig.namespace.apply(waiting_job(rig, replicas=2))["metadata"]["uid"]
    pods.start(2)
    rig.running(nodes=2, round_=1)
    kept = of_job(release, uid)
    authority = release.secret(CA)
    assert CertificateAuthority(authority["tls.crt"], authority["tls.key"]).has_signed(kept["tls.crt"])
    rig.finish.touch()
    assert pods.end() == [0, 0]
    assert rig.phase("Succeeded")["restarts"] == 0


def test_a_certificate_of_another_authority_of_cert_manager_is_refused(
    release: Release, manager: CertManager, tmp_path: Path
) -> None:
    """A user could get it by requesting the administrator's name from another issuer of the cluster."""
    [_, own, *_] = manifests("security.md", "cert-manager.io")
    other = {**own["spec"], "commonName": "root", "secretName": "foreign", "isCA": False}
    manager.apply({**own, "metadata": {**own["metadata"], "name": "foreign"}, "spec": other})
    manager.issued("foreign")
    for file, text in (release.secret("foreign") | {"ca.crt": release.secret(CA)["ca.crt"]}).items():
        (tmp_path / file).write_bytes(text)
    assert "etcd refused our certificate" in asyncio.run(opens(release.etcd.endpoint(tmp_path)))
    assert asyncio.run(opens(release.etcd.issue_certificate("root"))) == ""


@pytest.mark.parametrize("release", [SERVER], indirect=True)
def test_certificates_that_cert_manager_renews_are_used_while_the_job_runs(
    release: Release, manager: CertManager, pods: Pods, rig: KubeStack
) -> None:
    mount(release, SERVER)
    release.start_operator("--certificate-life", "60")
    rig.namespace.apply(waiting_job(rig, replicas=2))
    pods.start(2)
    rig.running(nodes=2, round_=1)
    first = served(release.etcd)
    assert first == leaf(release.secret(SERVER))
    key = release.secret(CA)["tls.key"]
    for certificate in (SERVER, CA):
        manager.renew(certificate)
    assert release.secret(CA)["tls.key"] == key, "rotationPolicy: Never"
    mount(release, SERVER)
    eventually(lambda: served(release.etcd) == leaf(release.secret(SERVER)), within_s=20, what="the new one is served")
    assert served(release.etcd) != first
    assert rig.operator is not None
    rig.operator.wait_for_output("using the renewed certificate of the authority")
    renewed = release.secret(CA)["tls.crt"].strip()
    uid = rig.job()["metadata"]["uid"]
    rig.until("a job's certificate with it", lambda: renewed in of_job(release, uid)["ca.crt"], within_s=90)
    pods.remount()
    pods.log_contains("dialed etcd with the renewed certificate")
    rig.finish.touch()
    assert pods.end() == [0, 0]
    assert rig.phase("Succeeded")["rendezvousRound"] == 1
