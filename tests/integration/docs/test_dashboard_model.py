"""The dashboard, parsed by Grafana's own model of dashboards (`hack/grafana-model`), which must know every field."""

import subprocess
from pathlib import Path

import pytest

from testing.waiting import scaled
from tests.unit.docs.commands import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
DASHBOARD = ROOT / "charts" / "elasticjob" / "dashboards" / "elasticjob.json"


def read_by_grafana(file: Path) -> "subprocess.CompletedProcess[str]":
    command = [ROOT / "hack" / "grafana-model", file]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=scaled(500))


def test_grafana_knows_every_field_and_panel_of_the_dashboard() -> None:
    done = read_by_grafana(DASHBOARD)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("ours", "wrong"), [('"reduceOptions"', '"reducOptions"'), ('"timeseries"', '"timeserie"')])
def test_a_misspelt_field_or_panel_is_found(ours: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "dashboard.json"
    file.write_text(DASHBOARD.read_text().replace(ours, wrong))
    done = read_by_grafana(file)
    assert (done.returncode, wrong.strip('"') in done.stdout) == (1, True)
