"""The Helm chart: what is rendered for which values; that a real cluster takes it is for e2e to show."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.charts.conftest import CHART, NAMESPACE, ROOT, Object, Render, Run, container, kinds, only

pytestmark = pytest.mark.timeout(1000)

THREE = ("etcd.members=3", "etcd.persistence.enabled=true")
EXTERNAL = ("etcd.enabled=false", "etcd.endpoints={10.0.0.1:2379,10.0.0.2:2379}")
WORKLOADS = {"Deployment", "StatefulSet", "Job"}


def test_it_passes_helms_own_strict_check(helm: Path) -> None:
    done = subprocess.run((helm, "lint", "--strict", CHART), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_crd_is_the_projects_own_and_stays_at_uninstall(render: Render) -> None:
    crd = only(render(), "CustomResourceDefinition")
    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load((ROOT / "crds" / "elasticjob.yaml").read_text())


def test_the_crd_may_go_with_the_release_or_not_be_in_it(render: Render) -> None:
    assert "annotations" not in only(render("crds.keep=false"), "CustomResourceDefinition")["metadata"]
    assert "CustomResourceDefinition" not in kinds(render("crds.install=false"))


def test_the_operator_is_one_and_is_replaced_before_its_successor_starts(render: Render) -> None:
    spec = only(render(), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_operator_is_told_where_etcd_is_and_which_agent_to_inject(render: Render) -> None:
    args = container(only(render("agent.image.repository=r/agent", "agent.image.tag=v7"), "Deployment"))["args"]
    assert f"--etcd-endpoints=elasticjob-etcd.{NAMESPACE}.svc:2379" in args
    assert "--agent-image=r/agent:v7" in args


def test_all_namespaces_need_a_cluster_role_and_named_ones_roles_there(render: Render) -> None:
    rendered = render("operator.watchNamespaces={a,b}")
    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds(rendered)
    assert [o["metadata"]["namespace"] for o in rendered if o["kind"] == "Role"] == ["a", "b"]
    assert {o["subjects"][0]["namespace"] for o in rendered if o["kind"] == "RoleBinding"} == {NAMESPACE}
    args = container(only(rendered, "Deployment"))["args"]
    assert {"--namespace=a", "--namespace=b", f"--cluster-id={NAMESPACE}.elasticjob"} <= set(args)


def test_a_namespaced_operator_gets_the_same_rules_but_for_what_is_in_no_namespace(render: Render) -> None:
    everywhere, named = only(render(), "ClusterRole")["rules"], only(render("operator.watchNamespaces={a}"), "Role")
    assert named["rules"] == everywhere[:-2]
    assert [rule["resources"] for rule in everywhere[-2:]] == [["nodes"], ["namespaces"]]


@pytest.mark.parametrize("values", [(), THREE], ids=["1 member", "3 members"])
def test_every_pod_fits_restricted_pod_security(render: Render, values: tuple[str, ...]) -> None:
    for owner in (o for o in render(*values) if o["kind"] in WORKLOADS):
        pod, inside = owner["spec"]["template"]["spec"], container(owner)["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert inside["allowPrivilegeEscalation"] is False
        assert inside["readOnlyRootFilesystem"] is True
        assert inside["capabilities"] == {"drop": ["ALL"]}
        assert container(owner)["resources"]["limits"]["memory"]


def test_nothing_of_ours_stands_between_the_api_server_and_anybodys_pods(render: Render) -> None:
    options = ("etcd.tls", "serviceMonitor", "prometheusRule", "dashboard", "ui")
    everything = kinds(render(*(f"{option}.enabled=true" for option in options)))
    assert not [kind for kind in everything if "Webhook" in kind or kind == "APIService"]


def test_one_member_of_etcd_begins_a_new_cluster_when_its_data_is_lost(render: Render) -> None:
    etcd = only(render(), "StatefulSet")
    assert "--initial-cluster-token=$(POD_UID)" in container(etcd)["command"]
    assert etcd["spec"]["template"]["spec"]["volumes"] == [{"name": "data", "emptyDir": {"sizeLimit": "4Gi"}}]


def test_three_members_know_each_other_by_name_before_they_are_ready(render: Render) -> None:
    rendered = render(*THREE)
    etcd, peers = only(rendered, "StatefulSet"), only(rendered, "Service", "-peers")
    [cluster] = [flag for flag in container(etcd)["command"] if flag.startswith("--initial-cluster=")]
    hosts = [
        f"elasticjob-etcd-{i}=http://elasticjob-etcd-{i}.elasticjob-etcd-peers.{NAMESPACE}.svc:2380" for i in range(3)
    ]
    assert cluster == "--initial-cluster=" + ",".join(hosts)
    assert peers["spec"]["publishNotReadyAddresses"] is True
    assert etcd["spec"]["serviceName"] == peers["metadata"]["name"]
    assert etcd["spec"]["podManagementPolicy"] == "Parallel"
    told = f"--etcd-endpoints=elasticjob-etcd-peers.{NAMESPACE}.svc:2379"
    assert told in container(only(rendered, "Deployment"))["args"]


def test_three_members_are_kept_apart_and_never_two_of_them_disturbed(render: Render) -> None:
    rendered = render(*THREE)
    etcd, budget = only(rendered, "StatefulSet"), only(rendered, "PodDisruptionBudget")
    [term] = etcd["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = etcd["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert etcd["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"] == {"storage": "8Gi"}


def test_an_etcd_of_the_users_takes_the_place_of_ours(render: Render) -> None:
    rendered = render(*EXTERNAL)
    assert not {"StatefulSet", "NetworkPolicy", "PodDisruptionBudget"} & kinds(rendered)
    assert not [o for o in rendered if o["kind"] == "Service" and o["metadata"]["name"].endswith("-etcd")]
    assert "--etcd-endpoints=10.0.0.1:2379,10.0.0.2:2379" in container(only(rendered, "Deployment"))["args"]


def test_only_jobs_pods_and_the_release_may_speak_to_etcd(render: Render) -> None:
    policy = only(render(), "NetworkPolicy")["spec"]
    client = policy["ingress"][0]
    assert client["ports"] == [{"port": "client", "protocol": "TCP"}]
    assert [sorted(peer) for peer in client["from"]] == [["podSelector"], ["namespaceSelector", "podSelector"]]
    assert client["from"][1]["podSelector"]["matchExpressions"][0]["key"] == "elasticjob.io/job-uid"
    labels = only(render(), "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert "NetworkPolicy" not in kinds(render("networkPolicy.enabled=false"))


def test_the_peers_of_etcd_may_speak_to_each_other(render: Render) -> None:
    ports = [rule["ports"][0]["port"] for rule in only(render(*THREE), "NetworkPolicy")["spec"]["ingress"]]
    assert ports == ["client", "peer", "metrics"]


def test_metrics_are_gathered_only_where_somebody_does_so(render: Render) -> None:
    there = ("--api-versions", "monitoring.coreos.com/v1/ServiceMonitor")
    assert "ServiceMonitor" not in kinds(render())
    assert "ServiceMonitor" in kinds(render(options=there))
    assert "ServiceMonitor" not in kinds(render("serviceMonitor.enabled=false", options=there))


@pytest.mark.parametrize("component", ["-operator", "-etcd"])
def test_what_is_watched_for_metrics_is_what_the_service_offers(render: Render, component: str) -> None:
    rendered = render("serviceMonitor.enabled=true", "serviceMonitor.labels.team=x")
    monitor, service = only(rendered, "ServiceMonitor", component), only(rendered, "Service", component)
    assert monitor["metadata"]["labels"]["team"] == "x"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_what_the_operator_says_and_pulls_is_the_users_choice(render: Render) -> None:
    values = ("operator.logFormat=json", "operator.verbose=true", "agent.imagePullSecrets={a,b}")
    args = container(only(render(*values), "Deployment"))["args"]
    added = set(args) - set(container(only(render(), "Deployment"))["args"])
    secrets = {"--agent-image-pull-secret=a", "--agent-image-pull-secret=b"}
    assert added == {"--log-format=json", "--verbose", *secrets}


def test_two_releases_share_no_name_but_the_crds(render: Render) -> None:
    def names(rendered: list[Object]) -> set[tuple[str, str]]:
        return {(o["kind"], o["metadata"]["name"]) for o in rendered if o["kind"] != "CustomResourceDefinition"}

    assert not names(render()) & names(render(release="other"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(("etcd.member=3",), "member", id="misspelt"),
        pytest.param(("etcd.members=2",), "members", id="two members"),
        pytest.param(("etcd.members=3",), "etcd.persistence.enabled: 3 members need it", id="three without disks"),
        pytest.param(("etcd.enabled=false",), "etcd.endpoints: name the etcd to use", id="no etcd at all"),
        pytest.param(
            ("etcd.enabled=false", "etcd.endpoints={http://a:2379}"), "endpoints", id="an address with a scheme"
        ),
        pytest.param((*EXTERNAL, "operator.watchNamespaces={a}"), "operator.clusterId", id="a shared etcd, no name"),
        pytest.param(("operator.image.tag=",), "tag", id="no tag"),
        pytest.param(("serviceMonitor.enabled=perhaps",), "enabled", id="perhaps"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(template: Run, values: tuple[str, ...], said: str) -> None:
    done = template(*values)
    assert done.returncode != 0
    assert said in done.stderr


def test_the_web_page_is_off_and_when_on_is_in_the_pods_loopback_alone(render: Render) -> None:
    def flags(*values: str) -> list[str]:
        return [flag for flag in container(only(render(*values), "Deployment"))["args"] if flag.startswith("--ui")]

    assert not flags()
    assert flags("ui.enabled=true", "ui.port=9000") == ["--ui=127.0.0.1:9000"]
    ports = only(render("ui.enabled=true"), "Service", "-operator")["spec"]["ports"]
    assert [port["name"] for port in ports] == ["metrics"]
