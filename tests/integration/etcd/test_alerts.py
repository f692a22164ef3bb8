"""The alerts on etcd name metrics that a real etcd of the chart's version has."""

import re
import urllib.request
from pathlib import Path

import pytest

from testing.servers.etcds import three_etcds
from testing.servers.secured_etcd import program
from testing.waiting import eventually

pytestmark = pytest.mark.etcd

ALERTS = Path(__file__).resolve().parents[3] / "charts" / "elasticjob" / "dashboards" / "alerts.yaml"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def metrics(endpoint: str) -> set[str]:
    with DIRECT.open(f"http://{endpoint}/metrics", timeout=10) as answer:
        return set(re.findall(r"^(\w+)[{ ]", answer.read().decode(), re.MULTILINE))


def test_a_real_etcd_has_what_the_alerts_look_at(tmp_path: Path) -> None:
    named = set(re.findall(r"\betcd_\w+(?={)", ALERTS.read_text()))
    with three_etcds(tmp_path, f"--quota-backend-bytes={8 << 20}", binary=program()) as etcds:
        etcds.fill()
        etcds.kill(2)
        eventually(lambda: not named - metrics(etcds.endpoints[0]), within_s=60, what=f"all of {sorted(named)}")
