"""The Helm chart: what is rendered for which values; that a real cluster takes it is for e2e to show."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.charts.conftest import CHART, NAMESPACE, ROOT, Object, Render, Run, container, kinds, only

pytestmark = pytest.mark.timeout(1000)

ONE = "etcd.members=1"
THREE = ("etcd.members=3", "etcd.persistence.enabled=true")
PLAIN = "etcd.tls.enabled=false"
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


def test_the_operator_has_a_standby_and_a_rollout_never_leaves_less(render: Render) -> None:
    rendered = render()
    spec, budget = only(rendered, "Deployment")["spec"], only(rendered, "PodDisruptionBudget", "-operator")["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (spec["replicas"], spec["strategy"]) == (2, rolling)
    assert (budget["maxUnavailable"], budget["selector"]) == (1, spec["selector"])


def test_one_replica_of_the_operator_elects_itself_and_does_not_block_a_drain(render: Render) -> None:
    rendered = render("operator.replicas=1", ONE)
    assert "--leader-elect" in container(only(rendered, "Deployment"))["args"]
    assert "PodDisruptionBudget" not in kinds(rendered)


@pytest.mark.parametrize("values", [(), ("operator.watchNamespaces={a}",)], ids=["all namespaces", "one namespace"])
def test_the_operator_may_use_its_lease_and_no_other(render: Render, values: tuple[str, ...]) -> None:
    rendered = render(*values, release="r")
    role, binding = only(rendered, "Role", "-lease"), only(rendered, "RoleBinding", "-lease")
    name = only(rendered, "Deployment")["metadata"]["name"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == NAMESPACE
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (None, ["create"]),
        ([name], ["get", "update"]),
    ]
    assert f"--lease-name={name}" in container(only(rendered, "Deployment"))["args"]


def test_replicas_of_the_operator_keep_apart_if_they_can_and_leave_a_dead_node_soon(render: Render) -> None:
    pod = only(render("operator.tolerations[0].key=gpu"), "Deployment")["spec"]["template"]
    terms = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["podAffinityTerm"]["topologyKey"] for term in terms] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    for term in terms:
        labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert labels.items() <= pod["metadata"]["labels"].items()
    first, *others = pod["spec"]["tolerations"]
    assert first == {"key": "gpu"}
    assert {(one["key"], one["tolerationSeconds"]) for one in others} == {
        ("node.kubernetes.io/not-ready", 30),
        ("node.kubernetes.io/unreachable", 30),
    }


def test_an_affinity_that_is_given_is_the_operators_only_one(render: Render) -> None:
    pod = only(render("operator.affinity.nodeAffinity.x=y"), "Deployment")["spec"]["template"]["spec"]
    assert pod["affinity"] == {"nodeAffinity": {"x": "y"}}


def test_the_operator_gets_the_address_of_etcd_and_the_image_of_the_agent(render: Render) -> None:
    args = container(only(render(ONE, "agent.image.repository=r/agent", "agent.image.tag=v7"), "Deployment"))["args"]
    assert f"--etcd-endpoints=elasticjob-etcd.{NAMESPACE}.svc:2379" in args
    assert "--agent-image=r/agent:v7" in args


def test_all_namespaces_need_a_cluster_role_and_named_ones_roles_there(render: Render) -> None:
    rendered = render("operator.watchNamespaces={a,b}")
    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds(rendered)
    roles = [o["metadata"] for o in rendered if o["kind"] == "Role"]
    assert {role["namespace"] for role in roles if role["name"].endswith("-operator")} == {"a", "b"}
    assert {role["namespace"] for role in roles if not role["name"].endswith("-operator")} == {NAMESPACE}
    assert {o["subjects"][0]["namespace"] for o in rendered if o["kind"] == "RoleBinding"} == {NAMESPACE}
    args = container(only(rendered, "Deployment"))["args"]
    assert {"--namespace=a", "--namespace=b", f"--cluster-id={NAMESPACE}.elasticjob"} <= set(args)


@pytest.mark.parametrize("values", [(), ("operator.watchNamespaces={a}",)], ids=["all namespaces", "one namespace"])
def test_the_release_has_an_identity_that_the_operator_alone_fills_and_that_outlives_it(
    render: Render, values: tuple[str, ...]
) -> None:
    rendered = render(*values)
    [kept] = [o for o in rendered if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "elasticjob-installation"]
    assert "data" not in kept, "an upgrade must not empty it"
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    gone = only(render(*values, "crds.keep=false"), "ConfigMap", "-installation")
    assert "annotations" not in gone["metadata"], "without the CRD there is no job that it could be kept for"
    args = container(only(rendered, "Deployment"))["args"]
    assert f"--installation-config-map={NAMESPACE}/elasticjob-installation" in args
    [role] = [o for o in rendered if o["kind"] == "Role" and o["metadata"]["name"].endswith("-installation")]
    named = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["elasticjob-installation"]}
    assert role["rules"] == [{**named, "verbs": ["get", "update"]}]
    assert role["metadata"]["namespace"] == NAMESPACE


def test_an_installation_may_have_a_name_for_jobs_of_its_own(render: Render) -> None:
    assert not [a for a in container(only(render(), "Deployment"))["args"] if a.startswith("--manager-name")]
    args = container(only(render("operator.managerName=example.com/a"), "Deployment"))["args"]
    assert "--manager-name=example.com/a" in args


@pytest.mark.parametrize("where", [(), ("operator.watchNamespaces={a}",)], ids=["all namespaces", "one namespace"])
def test_the_operator_has_no_right_to_budgets_where_the_values_switch_them_off(
    render: Render, where: tuple[str, ...]
) -> None:
    def rules(*values: str) -> list[Object]:
        roles = [o for o in render(*where, *values) if o["kind"] in {"Role", "ClusterRole"}]
        return [rule for role in roles for rule in role["rules"]]

    less = rules("operator.podDisruptionBudgets=false")
    [gone] = [rule for rule in rules() if rule not in less]
    assert gone["resources"] == ["poddisruptionbudgets"]


def test_a_namespaced_operator_gets_the_same_rules_but_for_what_is_in_no_namespace(render: Render) -> None:
    everywhere = only(render(), "ClusterRole")["rules"]
    named = only(render("operator.watchNamespaces={a}"), "Role", "-operator")
    assert named["rules"] == everywhere[:-1]
    assert everywhere[-1]["resources"] == ["nodes"]


@pytest.mark.parametrize("values", [(ONE,), (), THREE, (PLAIN,)], ids=["1 member", "3 members", "with disks", "plain"])
def test_every_pod_fits_restricted_pod_security(render: Render, values: tuple[str, ...]) -> None:
    for owner in (o for o in render(*values) if o["kind"] in WORKLOADS):
        pod = owner["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in (*pod.get("initContainers", ()), *pod["containers"]):
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert one["resources"]["limits"]["memory"]


def test_no_webhook_is_between_the_api_server_and_other_pods(render: Render) -> None:
    options = ("etcd.tls", "serviceMonitor", "prometheusRule", "dashboard", "ui")
    everything = kinds(render(*(f"{option}.enabled=true" for option in options)))
    assert not [kind for kind in everything if "Webhook" in kind or kind == "APIService"]


def test_one_member_of_etcd_begins_a_new_cluster_when_its_data_is_lost(render: Render) -> None:
    etcd = only(render(ONE), "StatefulSet")
    assert "--initial-cluster-token=$(POD_UID)" in container(etcd)["command"]
    [data] = [found for found in etcd["spec"]["template"]["spec"]["volumes"] if found["name"] == "data"]
    assert data["emptyDir"] == {"sizeLimit": "8Gi"}


@pytest.mark.parametrize("values", [(ONE,), (), THREE, (PLAIN,)], ids=["1 member", "3 members", "with disks", "plain"])
def test_etcds_raft_log_is_bounded_and_no_web_page_reaches_it(render: Render, values: tuple[str, ...]) -> None:
    flags = set(container(only(render(*values), "StatefulSet"))["command"])
    assert {"--snapshot-count=300", "--snapshot-catchup-entries=200", "--max-request-bytes=1048576"} <= flags
    assert "--enable-grpc-gateway=false" in flags


@pytest.mark.parametrize("values", [(ONE,), (), (PLAIN,)], ids=["1 member", "3 members", "plain"])
def test_etcd_gets_the_limits_of_one_job_and_the_exempt_users(render: Render, values: tuple[str, ...]) -> None:
    etcd = container(only(render("etcd.tls.user=admin", "etcd.limits.leases=7", *values), "StatefulSet"))
    told = {entry["name"]: entry.get("value") for entry in etcd["env"]}
    assert told["ELASTICJOB_ETCD_EXEMPT"] == "admin"
    assert told["ELASTICJOB_ETCD_MAX_LEASES"] == "7"
    assert etcd["image"] == "elasticjob/etcd:dev"


def test_the_limits_of_the_chart_are_those_that_etcd_has_without_it(render: Render) -> None:
    program = (ROOT / "images/etcd/limits/environment.go").read_text()
    etcd = container(only(render(), "StatefulSet"))
    told = {entry["name"]: entry.get("value") for entry in etcd["env"]}
    for what in ("Streams", "Watches", "Leases", "Connections", "Bytes"):
        [base] = re.findall(rf"{what}: +Allowance{{Base: ([0-9_]+)", program)
        assert told[f"ELASTICJOB_ETCD_MAX_{what.upper()}"] == base.replace("_", "")


def test_upstreams_etcd_is_given_no_flag_that_it_does_not_know(render: Render) -> None:
    """It ignores the environment's ELASTICJOB_ETCD_…, and has the same entry point."""
    upstream = "etcd.image.repository=gcr.io/etcd-development/etcd", "etcd.image.tag=v3.6.16"
    ours, theirs = (container(only(render(*values), "StatefulSet")) for values in ((), upstream))
    assert theirs.pop("image") == "gcr.io/etcd-development/etcd:v3.6.16"
    del ours["image"]
    assert ours == theirs


def test_a_new_release_has_three_members_and_so_has_what_is_rendered_without_a_cluster(render: Render) -> None:
    assert render() == render("etcd.members=auto") == render("etcd.members=3") != render(ONE)
    assert only(render(), "StatefulSet")["spec"]["replicas"] == 3


def test_three_members_know_each_other_by_name_before_they_are_ready(render: Render) -> None:
    rendered = render(*THREE)
    etcd, peers = only(rendered, "StatefulSet"), only(rendered, "Service", "-peers")
    hosts = [
        f"member=elasticjob-etcd-{i}=https://elasticjob-etcd-{i}.elasticjob-etcd-peers.{NAMESPACE}.svc:2380"
        for i in range(3)
    ]
    command, args = container(etcd)["command"], container(only(rendered, "Deployment"))["args"]
    assert command[:3] == ["/opt/elasticjob/bin/elasticjob-agent", "--run-member", "--name=$(POD_NAME)"]
    clients = [host.partition("://")[2].replace(":2380", ":2379") for host in hosts]
    places = [f"--{host},{client}" for host, client in zip(hosts, clients, strict=True)]
    assert [word for word in command if word.startswith("--member=")] == places
    assert [word for word in args if word.startswith("--etcd-member=")] == [f"--etcd-{host}" for host in hosts]
    assert not [word for word in command if "initial" in word], "how it starts is decided in the pod"
    assert peers["spec"]["publishNotReadyAddresses"] is True
    assert etcd["spec"]["serviceName"] == peers["metadata"]["name"]
    assert etcd["spec"]["podManagementPolicy"] == "Parallel"
    told = f"--etcd-endpoints=elasticjob-etcd-peers.{NAMESPACE}.svc:2379"
    assert told in container(only(rendered, "Deployment"))["args"]


def test_three_members_are_kept_apart_and_never_two_of_them_disturbed(render: Render) -> None:
    rendered = render(*THREE)
    etcd, budget = only(rendered, "StatefulSet"), only(rendered, "PodDisruptionBudget", "-etcd")
    [term] = etcd["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = etcd["spec"]["template"]["metadata"]["labels"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels.items()
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert etcd["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"] == {"storage": "8Gi"}


def test_three_members_need_no_disks_and_an_update_waits_until_each_has_its_vote(render: Render) -> None:
    etcd = only(render(), "StatefulSet")
    assert "volumeClaimTemplates" not in etcd["spec"]
    server = container(etcd)
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert "serializable" in server["startupProbe"]["httpGet"]["path"], "it starts without a leader, too"
    assert "serializable" not in server["livenessProbe"]["httpGet"]["path"], "without one it decides anew"
    mounts = {mount["name"] for mount in server["volumeMounts"]}
    volumes = {volume["name"] for volume in etcd["spec"]["template"]["spec"]["volumes"]}
    assert mounts == volumes == {"data", "payload", "tls", "tmp"}


def priorities(rendered: list[Object]) -> dict[str, str | None]:
    owners = [found for found in rendered if found["kind"] in {"Deployment", "StatefulSet"}]
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"].get("priorityClassName") for o in owners}


def test_no_job_displaces_etcd_or_the_operator(render: Render) -> None:
    rendered = render()
    own = only(rendered, "PriorityClass")
    assert priorities(rendered) == {
        "elasticjob-etcd": "elasticjob-critical",
        "elasticjob-operator": "elasticjob-critical",
    }
    assert own["metadata"]["name"] == "elasticjob-critical"
    assert own["value"] == 1_000_000_000, "the highest that is not the system's own"
    assert own["globalDefault"] is False


@pytest.mark.parametrize(
    "values", [("priorityClass.create=false",), ("operator.watchNamespaces={a}",)], ids=["not wanted", "one namespace"]
)
def test_without_a_class_of_its_own_a_release_has_those_that_are_named(render: Render, values: tuple[str, ...]) -> None:
    named = render(*values, "etcd.priorityClassName=e", "operator.priorityClassName=o")
    assert priorities(render(*values)) == {"elasticjob-etcd": None, "elasticjob-operator": None}
    assert priorities(named) == {"elasticjob-etcd": "e", "elasticjob-operator": "o"}
    assert "PriorityClass" not in kinds(named)
    assert only(render(*values, "priorityClass.create=true"), "PriorityClass")


def test_an_etcd_that_is_full_is_neither_restarted_nor_cut_off(render: Render) -> None:
    """Its /health is an error while a NOSPACE alarm is up, and then no client could free space."""
    for values in ((ONE,), THREE):
        etcd = container(only(render(*values), "StatefulSet"))
        for probe in ("readinessProbe", "livenessProbe"):
            path = etcd[probe]["httpGet"]["path"]
            assert "exclude=NOSPACE" in path or path == "/readyz"  # which looks at no alarms of space


def test_the_operator_looks_after_the_space_of_its_own_etcd_alone(render: Render) -> None:
    assert "--etcd-quota-bytes=2147483648" in container(only(render(), "Deployment"))["args"]
    args = container(only(render(*EXTERNAL), "Deployment"))["args"]
    assert not [arg for arg in args if arg.startswith("--etcd-quota-bytes")]


def test_an_etcd_of_the_users_takes_the_place_of_ours(render: Render) -> None:
    rendered = render(*EXTERNAL)
    assert "StatefulSet" not in kinds(rendered)
    assert only(rendered, "PodDisruptionBudget", "-operator")
    assert not [o for o in rendered if o["metadata"]["name"].endswith("-etcd")]
    assert "--etcd-endpoints=10.0.0.1:2379,10.0.0.2:2379" in container(only(rendered, "Deployment"))["args"]


def ingress(rendered: list[Object], component: str) -> dict[str, Object]:
    """Rules of a component's policy, by port."""
    rules: list[Object] = only(rendered, "NetworkPolicy", component)["spec"].get("ingress", [])
    return {rule["ports"][0]["port"]: rule for rule in rules}


def test_only_jobs_pods_and_the_release_may_speak_to_etcd(render: Render) -> None:
    policy, client = only(render(), "NetworkPolicy", "-etcd")["spec"], ingress(render(), "-etcd")["client"]
    assert client["ports"] == [{"port": "client", "protocol": "TCP"}]
    assert [sorted(peer) for peer in client["from"]] == [["podSelector"], ["namespaceSelector", "podSelector"]]
    assert client["from"][1]["podSelector"]["matchExpressions"][0]["key"] == "elasticjob.io/job-uid"
    assert client["from"][1]["namespaceSelector"] == {}
    labels = only(render(), "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert "NetworkPolicy" not in kinds(render("networkPolicy.enabled=false"))


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        (("networkPolicy.jobNamespaces={a,b}",), ["a", "b"]),
        (("operator.watchNamespaces={c}",), ["c"]),
        (("operator.watchNamespaces={c,d}", "networkPolicy.jobNamespaces={d}"), ["d"]),
    ],
)
def test_jobs_of_other_namespaces_do_not_reach_etcd(
    render: Render, values: tuple[str, ...], namespaces: list[str]
) -> None:
    [_, jobs] = ingress(render(*values), "-etcd")["client"]["from"]
    [chosen] = jobs["namespaceSelector"]["matchExpressions"]
    assert chosen == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}


def test_the_peers_of_etcd_may_speak_to_each_other(render: Render) -> None:
    assert list(ingress(render(), "-etcd")) == ["client", "peer"]
    assert list(ingress(render(ONE), "-etcd")) == ["client"]


def test_only_named_readers_may_read_metrics(render: Render) -> None:
    assert "metrics" not in ingress(render(), "-etcd")
    assert ingress(render(), "-operator") == {}
    prometheus = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
    named = "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8"
    for component, port in (("-operator", "http"), ("-etcd", "metrics")):
        gathered = render("serviceMonitor.enabled=true")
        assert ingress(gathered, component)[port]["from"] == [prometheus]
        assert ingress(render(named), component)[port]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
        labels = only(gathered, "NetworkPolicy", component)["spec"]["podSelector"]["matchLabels"]
        assert labels == only(gathered, "ServiceMonitor", component)["spec"]["selector"]["matchLabels"]


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


@pytest.mark.parametrize("value", ["Auto", "Off"])
def test_the_operator_gets_the_default_for_warm_starts(render: Render, value: str) -> None:
    assert f"--warm-start={value}" in container(only(render(f"agent.warmStart={value}"), "Deployment"))["args"]


def test_workers_are_started_cold_unless_the_values_want_it_otherwise(render: Render) -> None:
    assert "--warm-start=Off" in container(only(render(), "Deployment"))["args"]


def test_two_releases_share_no_name_but_the_crds(render: Render) -> None:
    def names(rendered: list[Object]) -> set[tuple[str, str]]:
        return {(o["kind"], o["metadata"]["name"]) for o in rendered if o["kind"] != "CustomResourceDefinition"}

    assert not names(render()) & names(render(release="other"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(("etcd.member=3",), "member", id="misspelt"),
        pytest.param(("agent.warmStart=false",), "warmStart", id="an unquoted Off, as YAML reads it"),
        pytest.param(("agent.warmStart=On",), "warmStart", id="an unknown kind of start"),
        pytest.param(("etcd.members=2",), "members", id="two members"),
        pytest.param(("etcd.enabled=false",), "etcd.endpoints: name the etcd to use", id="no etcd at all"),
        pytest.param(
            ("etcd.enabled=false", "etcd.endpoints={http://a:2379}"), "endpoints", id="an address with a scheme"
        ),
        pytest.param((*EXTERNAL, "operator.watchNamespaces={a}"), "operator.clusterId", id="a shared etcd, no name"),
        pytest.param(("operator.image.tag=",), "tag", id="no tag"),
        pytest.param(("serviceMonitor.enabled=perhaps",), "enabled", id="perhaps"),
        pytest.param(("etcd.tls.enabled=perhaps",), "enabled", id="perhaps TLS"),
        pytest.param(("priorityClass.create=perhaps",), "create", id="perhaps a class"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(template: Run, values: tuple[str, ...], message: str) -> None:
    done = template(*values)
    assert done.returncode != 0
    assert message in done.stderr


def test_the_web_page_is_off_and_when_on_is_in_the_pods_loopback_alone(render: Render) -> None:
    def flags(*values: str) -> list[str]:
        return [flag for flag in container(only(render(*values), "Deployment"))["args"] if flag.startswith("--ui")]

    assert not flags()
    assert flags("ui.enabled=true", "ui.port=9000") == ["--ui=127.0.0.1:9000"]
    ports = only(render("ui.enabled=true"), "Service", "-operator")["spec"]["ports"]
    assert [port["name"] for port in ports] == ["metrics"]
