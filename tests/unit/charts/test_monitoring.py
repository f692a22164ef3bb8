"""The chart's alerts and dashboard: promtool takes them, alerts fire when they should, names are the operator's."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticjob_api.rendezvous_state import Cause
from elasticjob_operator.metrics.job_health import AgentHealth, KeepHealth, PersistHealth, TimeBucket
from elasticjob_operator.metrics.prometheus import PrometheusRecorder
from tests.unit.charts.conftest import CHART, ROOT, Render, kinds, only

pytestmark = pytest.mark.timeout(1000)

ALERTS = CHART / "dashboards" / "alerts.yaml"
DASHBOARD = CHART / "dashboards" / "elasticjob.json"
SERVED = ("--api-versions", "monitoring.coreos.com/v1/PrometheusRule")
ETCDS_OWN = re.compile(r'\b(?:etcd|process)_\w+(?={)|\bup(?={job=~".*elasticjob.*etcd"})')
"""Names of etcd's own metrics; a real etcd is asked for them in tests/integration/etcd/test_alerts.py."""
_NAME = re.compile(r"\belasticjob_\w+")
_VALUE = re.compile(r'\b(\w+)="(\w+)"')
_SUFFIX = re.compile(r"_(bucket|sum|count)$")
_VALUES: dict[str, set[str]] = {
    "state": set(TimeBucket),
    "health": set(AgentHealth),
    "keep": set(KeepHealth),
    "persist": set(PersistHealth),
    "code": {"ok", "unreadable"},
    "cause": {cause.value for cause in Cause},
    "alarm_type": {"NOSPACE"},
}


@pytest.fixture(scope="session")
def promtool() -> Path:
    done = subprocess.run((ROOT / "hack" / "promtool",), capture_output=True, text=True, check=True, timeout=900)
    return Path(done.stdout.strip())


def told(promtool: Path, *words: str | Path) -> str:
    done = subprocess.run((promtool, *words), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    return found


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in rules()]


def names() -> set[str]:
    meter = PrometheusRecorder()
    meter.serve_state(lambda: {("a", "Running"): 1}, lambda: 0)
    return {line.split()[2] for line in meter.text().decode().splitlines() if line.startswith("# TYPE")}


def test_promtool_takes_the_rules(promtool: Path) -> None:
    assert f"SUCCESS: {len(rules())} rules found" in told(promtool, "check", "rules", ALERTS)


def test_alerts_fire_when_they_should_and_else_not(promtool: Path) -> None:
    assert "SUCCESS" in told(promtool, "test", "rules", Path(__file__).with_name("alerts_test.yaml"))


def test_every_alert_is_tested_and_is_on_the_page_with_its_cure() -> None:
    tried = Path(__file__).with_name("alerts_test.yaml").read_text()
    page = (ROOT / "docs" / "metrics.md").read_text()
    for rule in rules():
        assert rule["alert"] in tried
        assert f"`{rule['alert']}`" in page


@pytest.mark.parametrize("query", queries())
def test_a_query_names_what_the_operator_has(query: str) -> None:
    used = {_SUFFIX.sub("", name) for name in _NAME.findall(query)}
    assert used or ETCDS_OWN.search(query)
    assert used <= names()
    for label, value in _VALUE.findall(query):
        assert value in _VALUES[label]


def test_a_cluster_with_the_crd_gets_the_rules_and_another_none(render: Render) -> None:
    assert "PrometheusRule" not in kinds(render())
    rule = only(render("prometheusRule.labels.team=x", options=SERVED), "PrometheusRule")
    assert rule["metadata"]["labels"]["team"] == "x"
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    assert "PrometheusRule" not in kinds(render("prometheusRule.enabled=false", options=SERVED))


def test_the_dashboard_comes_when_it_is_asked_for_under_grafanas_label(render: Render) -> None:
    named = "elasticjob-dashboard"
    assert named not in {each["metadata"]["name"] for each in render()}
    found = only(render("dashboard.enabled=true"), "ConfigMap", named)
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["elasticjob.json"]) == json.loads(DASHBOARD.read_text())
