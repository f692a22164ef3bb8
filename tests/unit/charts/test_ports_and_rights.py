"""docs/ports-and-rights.md compared with the chart: each port, Secret, ConfigMap and rule of RBAC has its row."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.model import pod_constants
from tests.unit.charts.conftest import ROOT, Object, Render

pytestmark = pytest.mark.timeout(1000)

PAGE = ROOT / "docs" / "ports-and-rights.md"
RELEASE = "elasticjob"
ALL = ("etcd.persistence.enabled=true", "dashboard.enabled=true", "serviceMonitor.enabled=true")
"""Values with which everything is there."""
WITHOUT = {
    "etcd.tls.enabled": "etcd.tls.enabled=false",
    "operator.podDisruptionBudgets": "operator.podDisruptionBudgets=false",
    "operator.watchNamespaces": "operator.watchNamespaces={a}",
    "etcd.persistence.enabled": "etcd.persistence.enabled=false",
    "etcd.persistence.replaceAfterSeconds": "etcd.persistence.replaceAfterSeconds=0",
    "etcd.members": "etcd.members=1",
}
"""How to set each value so that the rules that need it are gone."""

Row = tuple[frozenset[str], ...]
"""The code spans of each cell."""


def rows(head: str) -> list[Row]:
    """Return the rows of the table whose first line begins so."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    next(line for line in lines if line.startswith(head))
    next(lines)
    table: list[Row] = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append(tuple(frozenset(re.findall(r"`([^`]+)`", cell)) for cell in line.strip("|").split("|")))
    return table


def spans(*words: str) -> frozenset[str]:
    """Return a cell with these code spans."""
    return frozenset(words)


def short(name: str) -> str:
    """Return a name as the page has it: without the release, with N for the number of a member."""
    return re.sub(r"-\d+$", "-N", name.replace(RELEASE, "…", 1))


def component(found: Object) -> str:
    """Return `operator`, `etcd`, or nothing."""
    return str((found["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))


def ports(objects: list[Object]) -> Iterator[Row]:
    """Return component, number and name of each container's port, and the Services and NetworkPolicies that have it."""
    for owner in objects:
        if owner["kind"] not in {"Deployment", "StatefulSet"}:
            continue
        beside = [found for found in objects if component(found) == component(owner)]
        for container in owner["spec"]["template"]["spec"]["containers"]:
            for port in container["ports"]:
                services = spans(*(short(s["metadata"]["name"]) for s in beside if port["name"] in targets(s)))
                policies = spans(*(short(p["metadata"]["name"]) for p in beside if port["name"] in allowed(p)))
                yield (
                    spans(component(owner)),
                    spans(str(port["containerPort"])),
                    spans(port["name"]),
                    services,
                    policies,
                )


def targets(service: Object) -> set[Any]:
    """Return the ports of containers that a Service leads to."""
    return {port["targetPort"] for port in service["spec"]["ports"]} if service["kind"] == "Service" else set()


def allowed(policy: Object) -> set[Any]:
    """Return the ports that a NetworkPolicy opens to somebody."""
    if policy["kind"] != "NetworkPolicy":
        return set()
    return {port["port"] for rule in policy["spec"].get("ingress") or [] for port in rule["ports"]}


def rules(objects: list[Object]) -> set[Row]:
    """Return role, group and resource, verbs and names of each rule."""
    return {
        (
            spans(short(role["metadata"]["name"])),
            spans(f"{resource}.{group}".rstrip(".")),
            spans(*rule["verbs"]),
            spans(*map(short, rule.get("resourceNames", ()))),
        )
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_each_port_of_the_release_has_a_row_with_its_services_and_policies(render: Render) -> None:
    told = {(row[0], row[1], row[2], row[5], row[6]) for row in rows("| component | port |")}
    assert told == set(ports(render(*ALL)))


def test_the_port_of_the_web_page_has_a_row(render: Render) -> None:
    [deployment] = [found for found in render("ui.enabled=true") if found["kind"] == "Deployment"]
    [page] = re.findall(r"--ui=(\S+?):(\d+)", " ".join(deployment["spec"]["template"]["spec"]["containers"][0]["args"]))
    assert page[0] == "127.0.0.1"
    assert any(page[1] in row[1] for row in rows("| where | port |"))


def test_each_secret_and_config_map_has_a_row(render: Render) -> None:
    made = {
        (spans(found["kind"]), spans(short(found["metadata"]["name"])))
        for found in render(*ALL)
        if found["kind"] in {"Secret", "ConfigMap"}
    }
    told = {row[:2] for row in rows("| kind | name |")}
    assert made <= told
    of_jobs = {(spans("Secret"), spans("JOB-etcd-UID"))}
    of_users = {(spans("Secret"), spans(value)) for value in ("etcd.tls.caSecret", "etcd.tls.serverSecret")}
    pulling = {(spans("Secret"), spans("imagePullSecrets", "agent.imagePullSecrets"))}
    assert told - made == of_jobs | of_users | pulling
    assert pod_constants.CREDENTIALS_DIR in PAGE.read_text(encoding="utf-8")


def test_each_rule_has_a_row(render: Render) -> None:
    told = [row[:4] for row in rows("| role | resource |")]
    assert len(told) == len(set(told))
    assert set(told) == rules(render(*ALL))


@pytest.mark.parametrize("value", WITHOUT)
def test_a_rule_is_gone_without_a_value_that_its_row_names_and_no_other_is(render: Render, value: str) -> None:
    kept = {row[:4] for row in rows("| role | resource |") if value not in row[4]}
    assert rules(render(*ALL, WITHOUT[value])) == kept


def test_no_row_names_a_value_that_is_not_tried() -> None:
    assert {value for row in rows("| role | resource |") for value in row[4]} == set(WITHOUT)
