"""`deploy/` is the rendered chart, and is up to date."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.charts.conftest import ROOT

pytestmark = pytest.mark.timeout(1000)


def test_the_plain_manifests_are_those_of_the_chart(helm: Path, tmp_path: Path) -> None:
    assert helm.is_file()
    subprocess.run((ROOT / "hack" / "render-deploy", tmp_path), check=True, timeout=60)
    rendered = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name: (ROOT / "deploy" / name).read_text() for name in rendered} == rendered, "run hack/render-deploy"
    assert {path.name for path in (ROOT / "deploy").iterdir()} == {*rendered, "00-namespace.yaml"}
