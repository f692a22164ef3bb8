"""`helm install` and `helm upgrade` with and without certificates, on a real API server, and their notes."""

import pytest

from testing.servers.apiserver import ApiServer
from tests.integration.kube.conftest import Helm, install_rendered

pytestmark = [pytest.mark.kube, pytest.mark.timeout(1000)]

PLAIN = "etcd.tls.enabled=false"


def test_a_new_release_asks_for_certificates_and_its_notes_do_not_warn(helm: Helm, chart_namespace: str) -> None:
    printed = helm("install")
    assert "--client-cert-auth" in printed
    assert "It requires certificates, and each job's gives access to that job's keys alone." in printed
    assert f"kubectl -n {chart_namespace} delete secret x-elasticjob-etcd-ca" in printed
    assert "WARNING" not in printed


def test_a_release_without_certificates_keeps_its_setting_and_its_notes_warn(
    crd: ApiServer, chart_namespace: str, helm: Helm
) -> None:
    install_rendered(crd, chart_namespace, helm("template", PLAIN))
    printed = helm("install")
    assert "--client-cert-auth" not in printed
    assert "WARNING: jobs are not protected from each other" in printed
    assert "this release has run without, and its jobs have none" in printed
    assert "--client-cert-auth" in helm("install", "etcd.tls.enabled=true"), "what is said is done"
    install_rendered(crd, chart_namespace, helm("template", "etcd.tls.enabled=true"))
    assert "--client-cert-auth" in helm("install")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((PLAIN,), "with the label elasticjob.io/job-uid in any namespace\n"),
        ((PLAIN, "networkPolicy.jobNamespaces={a,b}"), "with the label elasticjob.io/job-uid in a, b\n"),
        ((PLAIN, "networkPolicy.enabled=false"), "anywhere in the cluster\n"),
        (("etcd.enabled=false", "etcd.endpoints={10.0.0.1:2379}"), "etcd.tls.enabled is auto"),
    ],
)
def test_the_notes_name_open_ports_without_certificates(helm: Helm, values: tuple[str, ...], said: str) -> None:
    notes = helm("install", *values).partition("NOTES:")[2]
    assert "WARNING: jobs are not protected from each other" in notes
    assert said in notes
