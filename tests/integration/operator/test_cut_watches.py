"""An API server whose machine has failed, so that its connections do not end: both watches detect it."""

from pathlib import Path

import pytest

from testing.network.netns import run_in_own_network


@pytest.mark.timeout(180)
def test_watches_without_a_connection_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    run_in_own_network("tests.integration.operator.cut_watches", str(tmp_path), within_s=150)
