"""The chart with `etcd.tls`: who gets which Secret, and what etcd asks of whom."""

import pytest

from tests.faults.documented import manifests
from tests.unit.charts.conftest import NAMESPACE, Object, Render, Run, container, only

pytestmark = pytest.mark.timeout(1000)

TLS = "etcd.tls.enabled=true"
THREE = ("etcd.members=3", "etcd.persistence.enabled=true")
EXTERNAL = ("etcd.enabled=false", "etcd.endpoints={10.0.0.1:2379}")
OWN, SERVER = "elasticjob-etcd-ca", "elasticjob-etcd-server"


def secrets(objects: list[Object]) -> list[str]:
    return [found["metadata"]["name"] for found in objects if found["kind"] == "Secret"]


def arguments(objects: list[Object]) -> list[str]:
    found: list[str] = container(only(objects, "Deployment"))["args"]
    return found


def test_without_it_there_is_no_secret_and_no_permission_for_any(render: Render) -> None:
    rendered = render()
    assert secrets(rendered) == []
    assert not any("secrets" in rule["resources"] for rule in only(rendered, "ClusterRole")["rules"])


def test_the_operator_may_read_the_two_secrets_of_the_release_and_write_those_of_jobs(render: Render) -> None:
    rendered = render(TLS)
    assert secrets(rendered) == [OWN, SERVER]
    assert "data" not in only(rendered, "Secret", OWN), "what the operator has put there must survive an upgrade"
    [own] = only(rendered, "Role")["rules"]
    assert (own["resourceNames"], own["verbs"]) == ([OWN, SERVER], ["get", "update"])
    [jobs] = [rule for rule in only(rendered, "ClusterRole")["rules"] if "secrets" in rule["resources"]]
    assert jobs["verbs"] == ["create", "update"]


def test_etcd_wants_certificates_of_clients_and_of_peers(render: Render) -> None:
    one = container(only(render(TLS), "StatefulSet"))["command"]
    three = container(only(render(TLS, *THREE), "StatefulSet"))["command"]
    assert {"--client-cert-auth", "--listen-client-urls=https://0.0.0.0:2379"} <= set(one) & set(three)
    assert "--peer-client-cert-auth" in three
    assert f"--peer-cert-allowed-hostname=elasticjob-etcd-peers.{NAMESPACE}.svc" in three
    assert not any("http://" in word for word in three if "metrics" not in word)


def test_etcds_certificate_is_for_the_name_that_is_dialed(render: Render) -> None:
    for values in ((), THREE):
        given = arguments(render(TLS, *values))
        [dialed] = [word.removeprefix("--etcd-endpoints=") for word in given if word.startswith("--etcd-endpoints=")]
        assert f"--etcd-server-name={dialed.removesuffix(':2379')}" in given


def test_the_documented_certificate_of_cert_manager_is_for_the_names_that_the_operator_would_take(
    render: Render,
) -> None:
    [certificate] = [found for found in manifests("security.md", "cert-manager.io") if "dnsNames" in found["spec"]]
    said = [*certificate["spec"]["dnsNames"], *certificate["spec"]["ipAddresses"]]
    wanted = [word for word in arguments(render(TLS)) if word.startswith("--etcd-server-name=")]
    assert [
        "--etcd-server-name=" + name.replace(certificate["metadata"]["namespace"], NAMESPACE) for name in said
    ] == wanted


def test_secrets_that_are_brought_are_named_and_not_made(render: Render) -> None:
    rendered = render(TLS, "etcd.tls.caSecret=mine", "etcd.tls.serverSecret=theirs")
    assert secrets(rendered) == []
    assert only(rendered, "Role")["rules"][0]["resourceNames"] == ["mine"]
    assert "--etcd-ca-secret=mine" in arguments(rendered)
    assert not any("server" in word for word in arguments(rendered))
    volumes = only(rendered, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
    assert "theirs" in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]


def test_an_etcd_of_ones_own_needs_an_authority_of_ones_own(render: Render, template: Run) -> None:
    done = template(TLS, *EXTERNAL)
    assert done.returncode != 0
    assert "etcd.tls.caSecret: an etcd of your own trusts an authority of yours" in done.stderr
    assert "--etcd-ca-secret=mine" in arguments(render(TLS, *EXTERNAL, "etcd.tls.caSecret=mine"))
