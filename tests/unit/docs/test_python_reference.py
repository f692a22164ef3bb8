"""`docs/reference/python.md` is what `hack/reference/python.py` makes of the docstrings now."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_agent import spawn
from elasticjob_agent.multiprocessing import PContext
from elasticjob_agent.server import WorkerSpec

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "hack" / "reference" / "python.py"
PAGE = ROOT / "docs" / "reference" / "python.md"


def _page() -> str:
    return str(runpy.run_path(str(SCRIPT))["page"]())


def test_the_reference_is_up_to_date_with_the_docstrings() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("described", [spawn, spawn.spawn, spawn.ProcessContext.join, WorkerSpec])
def test_a_docstring_that_changes_makes_the_page_out_of_date(
    described: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(described, "__doc__", "Something else.")
    assert _page() != PAGE.read_text()


def test_a_public_method_without_a_docstring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PContext.shutdown, "__doc__", None)
    with pytest.raises(ValueError, match=r"PContext\.shutdown.* has no docstring"):
        _page()


def test_arguments_and_errors_become_lists() -> None:
    page = _page()
    assert "- `nprocs`: processes on this node.\n" in page
    assert "- `MainProcessError`: this process got SIGINT or SIGTERM.\n" in page


def test_the_text_below_a_field_describes_it() -> None:
    assert "- `local_world_size: int` – Number of workers on this node.\n" in _page()
