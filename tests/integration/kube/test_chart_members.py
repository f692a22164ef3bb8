"""The number of etcd's members in the chart by `etcd.members`, with releases on a real API server."""

import subprocess
from typing import Any

import pytest
import yaml

from testing.servers.apiserver import ApiServer
from tests.integration.kube.conftest import Helm, install_rendered

pytestmark = [pytest.mark.kube, pytest.mark.timeout(1000)]

PLAIN = "etcd.tls.enabled=false"
ONE, THREE = "etcd.members=1", "etcd.members=3"


def shape(printed: str) -> tuple[int, str]:
    """Return the number of members, and the service that names them."""
    manifests = printed.partition("MANIFEST:")[2].partition("NOTES:")[0]
    found: list[Any] = [one for one in yaml.safe_load_all(manifests) if one and one["kind"] == "StatefulSet"]
    [etcd] = found
    return etcd["spec"]["replicas"], etcd["spec"]["serviceName"]


def test_a_new_release_has_three_members(helm: Helm) -> None:
    new, small = helm("install"), helm("install", ONE)
    assert (shape(new), shape(small)) == ((3, "x-elasticjob-etcd-peers"), (1, "x-elasticjob-etcd"))
    assert "It has three members, and works while two of them run.\n  Its data go with the last" in new
    assert "It has one member: while its node is away no job recovers." in small


@pytest.mark.parametrize(
    ("runs", "kept"), [(ONE, (1, "x-elasticjob-etcd")), (THREE, (3, "x-elasticjob-etcd-peers"))], ids=["one", "three"]
)
def test_an_upgrade_keeps_the_number_of_members_and_the_api_server_takes_it(
    crd: ApiServer, chart_namespace: str, helm: Helm, runs: str, kept: tuple[int, str]
) -> None:
    install_rendered(crd, chart_namespace, helm("template", runs))
    printed = helm("install")
    assert shape(printed) == kept
    assert f"--etcd-endpoints={kept[1]}.{chart_namespace}.svc:2379" in printed


@pytest.mark.parametrize(("runs", "wanted"), [(1, 3), (3, 1)])
def test_another_number_of_members_is_refused_by_name(
    crd: ApiServer, chart_namespace: str, helm: Helm, runs: int, wanted: int
) -> None:
    install_rendered(crd, chart_namespace, helm("template", f"etcd.members={runs}"))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        helm("install", f"etcd.members={wanted}")
    assert f"etcd.members: this release runs with {runs} and an upgrade keeps that number" in refused.value.stderr
    assert shape(helm("install", f"etcd.members={runs}"))[0] == runs


@pytest.mark.parametrize("runs", ["true", "false"], ids=["tls", "plain"])
def test_while_the_statefulset_is_deleted_the_operators_flags_keep_tls_as_it_was(
    crd: ApiServer, chart_namespace: str, helm: Helm, runs: str
) -> None:
    install_rendered(crd, chart_namespace, helm("template", ONE, f"etcd.tls.enabled={runs}"), "Deployment")
    printed = helm("install")
    assert shape(printed)[0] == 3
    assert ("--client-cert-auth" in printed) is (runs == "true"), "pods of jobs began with it, or without"
