"""An API server that is there no more, and whose connections nobody ends: both watches find out."""

from pathlib import Path

import pytest

from testing.network.netns import run_in_own_network


@pytest.mark.timeout(180)
def test_watches_whose_way_is_cut_end_within_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    run_in_own_network("tests.integration.operator.cut_watches", str(tmp_path), within_s=150)
