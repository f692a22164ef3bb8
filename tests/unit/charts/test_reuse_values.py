"""`helm upgrade --reuse-values` renders the chart with the values of an older release, which lack the newer ones."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.unit.charts.conftest import CHART, Object, Render, only

pytestmark = pytest.mark.timeout(1000)

NEWER = {
    "operator": ("replicas", "managerName", "tolerationSeconds", "podDisruptionBudgets"),
    "agent": ("warmStart",),
    "etcd": ("members",),
    "networkPolicy": ("jobNamespaces", "metricsFrom"),
}
"""Values that the first releases did not have; a new value belongs here."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart with an older release's values."""
    chart = tmp_path / "elasticjob"
    shutil.copytree(CHART, chart)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for section, names in NEWER.items():
        for name in names:
            del values[section][name]
    del values["priorityClass"]
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    return chart


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("etcd.members=1",),
        ("etcd.members=3", "etcd.persistence.enabled=true", "etcd.tls.enabled=true"),
        ("operator.watchNamespaces={a}", "ui.enabled=true"),
    ],
    ids=["defaults", "one member", "three members", "one namespace"],
)
def test_values_that_an_older_release_lacks_are_the_defaults(
    render: Render, older: Path, values: tuple[str, ...]
) -> None:
    assert render(*values, chart=older) == render(*values)


@pytest.mark.parametrize("chosen", ["0", "7"])
def test_a_chosen_number_of_seconds_stays_and_so_does_none(render: Render, chosen: str) -> None:
    assert _seconds(only(render(f"operator.tolerationSeconds={chosen}"), "Deployment")) == [int(chosen)] * 2


def _seconds(deployment: Object) -> list[int]:
    return [one["tolerationSeconds"] for one in deployment["spec"]["template"]["spec"]["tolerations"]]
