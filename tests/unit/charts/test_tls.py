"""The chart with `etcd.tls`: the Secrets of each component, and the certificates that etcd requires."""

import pytest

from testing.doc_snippets import manifests
from tests.unit.charts.conftest import NAMESPACE, Object, Render, Run, container, only

pytestmark = pytest.mark.timeout(1000)

TLS, PLAIN = "etcd.tls.enabled=true", "etcd.tls.enabled=false"
ONE = "etcd.members=1"
THREE = ("etcd.members=3", "etcd.persistence.enabled=true")
EXTERNAL = ("etcd.enabled=false", "etcd.endpoints={10.0.0.1:2379}")
OWN, SERVER = "elasticjob-etcd-ca", "elasticjob-etcd-server"


def secrets(objects: list[Object]) -> list[str]:
    return [found["metadata"]["name"] for found in objects if found["kind"] == "Secret"]


def arguments(objects: list[Object]) -> list[str]:
    found: list[str] = container(only(objects, "Deployment"))["args"]
    return found


def test_the_releases_own_etcd_has_it_unless_it_is_off(render: Render) -> None:
    assert render() == render(TLS) != render(PLAIN)


def test_an_etcd_of_ones_own_has_it_when_its_authority_is_named(render: Render) -> None:
    assert render(*EXTERNAL) == render(*EXTERNAL, PLAIN)
    named = (*EXTERNAL, "etcd.tls.caSecret=mine")
    assert render(*named) == render(*named, TLS) != render(*named, PLAIN)


@pytest.mark.parametrize("values", [(PLAIN,), EXTERNAL], ids=["plain", "external"])
def test_without_it_there_is_no_secret_and_no_permission_for_any(render: Render, values: tuple[str, ...]) -> None:
    rendered = render(*values)
    assert secrets(rendered) == []
    assert not any("secrets" in rule["resources"] for rule in only(rendered, "ClusterRole")["rules"])
    roles = {o["metadata"]["name"] for o in rendered if o["kind"] == "Role"}
    assert roles == {"elasticjob-operator-lease", "elasticjob-operator-installation"}


def test_the_authority_stays_with_the_jobs_whose_certificates_it_has_signed(render: Render) -> None:
    def policy(*values: str) -> str | None:
        annotations: dict[str, str] = only(render(*values), "Secret", OWN)["metadata"].get("annotations", {})
        return annotations.get("helm.sh/resource-policy")

    assert policy() == "keep"
    assert policy("crds.keep=false") is None


def test_the_operator_may_read_the_two_secrets_of_the_release_and_write_those_of_jobs(render: Render) -> None:
    rendered = render(TLS)
    assert secrets(rendered) == [OWN, SERVER]
    assert "data" not in only(rendered, "Secret", OWN), "what the operator has put there must survive an upgrade"
    [own] = only(rendered, "Role", "-certificates")["rules"]
    assert (own["resourceNames"], own["verbs"]) == ([OWN, SERVER], ["get", "update"])
    [jobs] = [rule for rule in only(rendered, "ClusterRole")["rules"] if "secrets" in rule["resources"]]
    assert jobs["verbs"] == ["create", "update"]


def test_etcd_wants_certificates_of_clients_and_of_peers(render: Render) -> None:
    one = container(only(render(TLS, ONE), "StatefulSet"))["command"]
    three = container(only(render(TLS, *THREE), "StatefulSet"))["command"]
    for word in ("--client-cert-auth", "--listen-client-urls=https://0.0.0.0:2379"):
        assert word in one
        assert f"--serving={word}" in three
    assert "--peer-client-cert-auth" in three
    assert f"--peer-cert-allowed-hostname=elasticjob-etcd-peers.{NAMESPACE}.svc" in three
    assert not any("http://" in word for word in three if "metrics" not in word)


def flags(command: list[str]) -> set[str]:
    return set(command[command.index("etcd") + 1 :])


def test_authentication_is_enabled_in_etcds_data_before_its_port_opens(render: Render) -> None:
    etcd = only(render(TLS, ONE, "etcd.tls.user=boss"), "StatefulSet")
    pod, server = etcd["spec"]["template"]["spec"], container(etcd)
    payload, prepares = pod["initContainers"]
    assert prepares["command"][:4] == ["/opt/elasticjob/bin/elasticjob-agent", "--enable-auth", "--admin=boss", "--"]
    assert prepares["image"] == server["image"], "another version might not read its data"
    extra = flags(server["command"]) - flags(prepares["command"])
    assert {flag.partition("=")[0] for flag in extra} == {
        *("--listen-client-urls", "--listen-metrics-urls", "--client-cert-auth"),
        *("--trusted-ca-file", "--cert-file", "--key-file"),
    }
    assert not flags(prepares["command"]) - flags(server["command"])
    [copied], [_, read, *_] = payload["volumeMounts"], prepares["volumeMounts"]
    assert (read["name"], read["mountPath"], read["readOnly"]) == (copied["name"], "/opt/elasticjob", True)
    assert "initContainers" not in only(render(PLAIN, ONE), "StatefulSet")["spec"]["template"]["spec"]


def test_the_first_of_three_members_enables_authentication_before_its_port_opens(render: Render) -> None:
    command = container(only(render(TLS, "etcd.tls.user=boss", *THREE), "StatefulSet"))["command"]
    ours, etcds = command[: command.index("--")], command[command.index("--") :]
    assert "--enable-auth=boss" in ours
    assert "--serving=--listen-client-urls=https://0.0.0.0:2379" in ours
    assert not [word for word in etcds if "listen-client" in word]


def server_names(given: list[str]) -> list[str]:
    return [word.removeprefix("--etcd-server-name=") for word in given if word.startswith("--etcd-server-name=")]


def test_etcds_certificate_is_for_the_names_that_are_dialed_with_one_member_and_with_three(render: Render) -> None:
    dialed, named = set(), []
    for values in ((ONE,), THREE):
        given = arguments(render(TLS, *values))
        [endpoint] = [word.removeprefix("--etcd-endpoints=") for word in given if word.startswith("--etcd-endpoints=")]
        dialed.add(endpoint.removesuffix(":2379"))
        named.append(server_names(given))
    assert named[0] == named[1], "pods of jobs keep the name that they began with"
    assert dialed == {f"elasticjob-etcd.{NAMESPACE}.svc", f"elasticjob-etcd-peers.{NAMESPACE}.svc"} < set(named[0])
    assert f"*.elasticjob-etcd-peers.{NAMESPACE}.svc" in named[0]


def test_the_documented_certificate_of_cert_manager_is_for_the_names_that_the_operator_would_take(
    render: Render,
) -> None:
    [certificate] = [found for found in manifests("security.md", "cert-manager.io") if "dnsNames" in found["spec"]]
    names = [*certificate["spec"]["dnsNames"], *certificate["spec"]["ipAddresses"]]
    wanted = server_names(arguments(render(TLS)))
    assert [name.replace(certificate["metadata"]["namespace"], NAMESPACE) for name in names] == wanted


def test_secrets_that_are_brought_are_named_and_not_made(render: Render) -> None:
    rendered = render(TLS, "etcd.tls.caSecret=mine", "etcd.tls.serverSecret=theirs")
    assert secrets(rendered) == []
    assert only(rendered, "Role", "-certificates")["rules"][0]["resourceNames"] == ["mine"]
    assert "--etcd-ca-secret=mine" in arguments(rendered)
    assert not any("server" in word for word in arguments(rendered))
    volumes = only(rendered, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
    assert "theirs" in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]


def test_an_etcd_of_ones_own_needs_an_authority_of_ones_own(render: Render, template: Run) -> None:
    done = template(TLS, *EXTERNAL)
    assert done.returncode != 0
    assert "etcd.tls.caSecret: an etcd of your own trusts an authority of yours" in done.stderr
    assert "--etcd-ca-secret=mine" in arguments(render(TLS, *EXTERNAL, "etcd.tls.caSecret=mine"))
