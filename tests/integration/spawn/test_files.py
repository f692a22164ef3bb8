"""Temporary files: there are none, so none is left, and a full disk prevents nothing."""

from pathlib import Path

import pytest

from elasticjob_agent.spawn import ProcessRaisedException, start_processes
from testing.waiting import scaled
from tests.integration.spawn import functions
from tests.integration.supervisor.launching import Script

METHODS = ["spawn", "fork", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
def test_b_003_28_no_temporary_file_is_left_after_success_or_failure(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    start_processes(functions.nothing, start_method=method)
    with pytest.raises(ProcessRaisedException):
        start_processes(functions.raise_if, args=(0,), nprocs=2, start_method=method)
    assert list(tmp_path.iterdir()) == []


def test_b_003_28_no_temporary_file_is_left_by_a_context_that_was_not_joined(tmp_path: Path, script: Script) -> None:
    program = script(
        f"import os; os.environ['TMPDIR'] = {str(tmp_path)!r}\n"
        "from elasticjob_agent.spawn import start_processes\n"
        "from tests.integration.spawn import functions\n"
        "start_processes(functions.raise_if, args=(0,), join=False, start_method='spawn')"
    )
    assert program.wait(scaled(60)) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", METHODS)
def test_b_003_29_a_failure_is_reported_without_a_folder_for_files(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "there is no such folder"))
    with pytest.raises(ProcessRaisedException, match="legitimate exception from process 0"):
        start_processes(functions.raise_if, args=(0,), nprocs=2, start_method=method)


@pytest.mark.parametrize("method", METHODS)
def test_k_003_03_a_child_cannot_ignore_its_parent_s_death_by_ignoring_sigint(
    tmp_path: Path, method: str, script: Script
) -> None:
    program = script(
        "from pathlib import Path\nfrom elasticjob_agent.spawn import start_processes\n"
        "from tests.integration.spawn import functions\n"
        f"start_processes(functions.ignore_and_hang, args=(Path({str(tmp_path)!r}),), start_method={method!r})"
    )
    functions.wait_for((tmp_path / "leaf 0").exists)
    program.kill()
    pid = (tmp_path / "leaf 0").read_text()
    functions.wait_for(lambda: not Path("/proc", pid).exists())
