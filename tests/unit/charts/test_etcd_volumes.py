"""The permissions of the operator to replace a lost volume of etcd, and the values that enable it."""

import pytest

from tests.unit.charts.conftest import NAMESPACE, Object, Render, container, only

VOLUMES = ("etcd.members=3", "etcd.persistence.enabled=true")
SEEN = {"nodes", "persistentvolumes"}


def flags(rendered: list[Object]) -> list[str]:
    args: list[str] = container(only(rendered, "Deployment"))["args"]
    return [flag for flag in args if "volume" in flag]


def rules(rendered: list[Object]) -> list[Object]:
    return [rule for found in rendered if found["kind"] in {"Role", "ClusterRole"} for rule in found["rules"]]


def test_with_volumes_the_operator_may_delete_the_pods_and_claims_of_etcd_by_name(render: Render) -> None:
    rendered = render(*VOLUMES, release="r")
    role, binding = only(rendered, "Role", "-etcd-volumes"), only(rendered, "RoleBinding", "-etcd-volumes")
    pods = [f"r-elasticjob-etcd-{number}" for number in range(3)]
    named = {rule["resources"][0]: (rule["resourceNames"], rule["verbs"]) for rule in role["rules"]}
    assert named == {
        "pods": (pods, ["get", "delete"]),
        "persistentvolumeclaims": ([f"data-{pod}" for pod in pods], ["get", "delete"]),
    }
    [template] = only(rendered, "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert template["metadata"]["name"] == "data"
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == NAMESPACE
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == "r-elasticjob-operator"
    seen = {rule["resources"][0]: rule for rule in only(rendered, "ClusterRole")["rules"]}
    assert [seen[resource]["verbs"] for resource in sorted(SEEN)] == [["get"], ["get"]]
    assert flags(rendered) == [f"--etcd-volumes-namespace={NAMESPACE}", "--etcd-replace-volume-after=600"]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="no volumes"),
        pytest.param(("etcd.members=1", "etcd.persistence.enabled=true"), id="one member"),
        pytest.param((*VOLUMES, "etcd.persistence.replaceAfterSeconds=0"), id="never"),
        pytest.param((*VOLUMES, "operator.watchNamespaces={a}"), id="nodes cannot be seen"),
        pytest.param(
            ("etcd.enabled=false", "etcd.endpoints={10.0.0.1:2379}", "etcd.persistence.enabled=true"), id="not its own"
        ),
    ],
)
def test_else_it_has_no_right_and_no_flag_for_it(render: Render, values: tuple[str, ...]) -> None:
    rendered = render(*values)
    assert flags(rendered) == []
    touched = {resource for rule in rules(rendered) for resource in rule["resources"]}
    assert not {name for name in touched if name.startswith("persistentvolume")}
    assert not [found for found in rendered if found["metadata"]["name"].endswith("-etcd-volumes")]


def test_the_time_is_the_chosen_one(render: Render) -> None:
    assert flags(render(*VOLUMES, "etcd.persistence.replaceAfterSeconds=7"))[1:] == ["--etcd-replace-volume-after=7"]
