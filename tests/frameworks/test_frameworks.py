"""The examples for other frameworks survive the kill of a worker during training, as their manifests promise.

`make test-frameworks` runs them: JAX and XGBoost come from hack/frameworks-venv, torch from hack/torch-venv.
"""

import subprocess
from pathlib import Path

import pytest

from tests.frameworks.local_run import ROOT, run_example

pytestmark = pytest.mark.timeout(300)

KILL = ("--inject", "kill-worker:rank=1@3s")
EXAMPLES = [
    pytest.param("jax", "frameworks-venv", "process 0: done after 200 steps", id="jax"),
    pytest.param("xgboost", "frameworks-venv", "rank 0: done with 60 trees", id="xgboost"),
    pytest.param("fsdp", "torch-venv", "rank 0: done after 200 steps", id="fsdp"),
    pytest.param("ddp", "torch-venv", "done after 200 steps", id="ddp"),
    pytest.param("sampler", "torch-venv", "rank 0: done after 680 steps", id="sampler"),
]


@pytest.mark.parametrize(("name", "venv", "last"), EXAMPLES)
def test_the_example_survives_a_killed_worker(name: str, venv: str, last: str, tmp_path: Path) -> None:
    python = Path(subprocess.run([ROOT / "hack" / venv], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    done = run_example(name, tmp_path, python, *KILL)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert last in output
    assert "was killed by SIGKILL in round 1" in output
    assert "round 2: 2 nodes, 2 workers" in output
