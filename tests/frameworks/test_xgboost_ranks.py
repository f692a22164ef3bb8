"""The ranks of the XGBoost example add the same trees to the same model, though each sees files of its own."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from testing.network.ports import unused_port
from testing.waiting import scaled
from tests.frameworks.local_run import ROOT

pytestmark = pytest.mark.timeout(300)

PROGRAM = ROOT / "examples" / "xgboost" / "train.py"


@pytest.fixture(scope="module")
def python() -> str:
    """Return the interpreter that has XGBoost."""
    return subprocess.run([ROOT / "hack/frameworks-venv"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def grow(python: str, trees: int, models: list[Path]) -> list[str]:
    """Run one rank for each file, up to so many trees; return what each has written."""
    port = str(unused_port())
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank, model in enumerate(models):
            place = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(len(models))}
            process = subprocess.Popen(
                [python, "-B", str(PROGRAM), "--trees", str(trees), "--model", str(model)],
                env={**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            ranks.append(stack.enter_context(process))
            stack.callback(process.kill)
        outputs = [rank.communicate(timeout=scaled(60))[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(models), "\n".join(outputs)
    return outputs


@pytest.mark.parametrize("older", [0, 1])
def test_ranks_that_see_different_files_continue_from_the_same_model(older: int, python: str, tmp_path: Path) -> None:
    """A node that has just joined has no file, and a shared file system may show it an old one."""
    newer = tmp_path / "newer.json"
    grow(python, 6, [newer])
    models = [newer, newer]
    models[older] = tmp_path / "none.json"
    outputs = grow(python, 9, models)
    assert [f"rank {rank} goes on from 6 trees\n" in output for rank, output in enumerate(outputs)] == [True, True]
