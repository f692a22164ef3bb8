"""Commands of the pages that take minutes or need large parts: torch, wheels, the site, all checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_agent.net.ports import free_port
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.waiting import scaled
from tests.integration.docs.typed import output_of, typed
from tests.unit.docs.commands import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
LONG_S = 1500.0
# One write for each line: with PYTHONUNBUFFERED, print writes each word by itself, and sixteen ranks share a pipe.
WORLD = "import os, sys\nsys.stdout.write('rank {RANK} of {WORLD_SIZE}\\n'.format(**os.environ))\n"
TORCHRUN = "torchrun --nnodes 2:4 --nproc-per-node 8 --rdzv-backend {} --rdzv-endpoint {} --rdzv-id job1 train.py"


def output(*command: str | Path) -> str:
    """Return the output of a command that must succeed."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(LONG_S)).stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the package, as in an index."""
    folder = tmp_path_factory.mktemp("wheels")
    output(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    [made] = folder.glob("elasticjob-*.whl")
    return made


@pytest.fixture(scope="module")
def torch_environ(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a user with torch and elasticjob."""
    torch = Path(output(ROOT / "hack" / "torch-venv"))
    beside = tmp_path_factory.mktemp("site")
    output(torch, "-m", "pip", "install", "-q", "--target", beside, wheel)
    return {"PATH": f"{torch.parent}:{os.environ['PATH']}", "PYTHONPATH": str(beside)}


def two_nodes(backend: str, named: str, here: str, folder: Path, environ: dict[str, str]) -> list[str]:
    """Run the command of the page on two nodes of this machine; return their output."""
    (folder / "train.py").write_text(WORLD)
    command = TORCHRUN.format(backend, named)
    values = {named: here, "job1": f"docs-{os.getpid()}"}
    nodes = [typed(command, folder, values, environ=environ) for _ in range(2)]
    return [output_of(node, within_s=LONG_S) for node in nodes]


def ranks(texts: list[str]) -> list[int]:
    """Return the ranks, of sixteen, that wrote that they ran."""
    return sorted(int(rank) for text in texts for rank in re.findall(r"\brank (\d+) of 16\b", text))


def test_torchrun_itself(tmp_path: Path, torch_environ: dict[str, str]) -> None:
    here = f"127.0.0.1:{free_port()}"
    assert ranks(two_nodes("c10d", "node0:29400", here, tmp_path, torch_environ)) == list(range(16))


def test_torchrun_with_our_rendezvous(tmp_path: Path, torch_environ: dict[str, str], etcd_server: EmbeddedEtcd) -> None:
    here = etcd_server.endpoint.targets[0]
    assert ranks(two_nodes("elasticjob", "etcd:2379", here, tmp_path, torch_environ)) == list(range(16))


def test_the_package_and_its_extras_are_installed_by_pip(tmp_path: Path, wheel: Path) -> None:
    venv = tmp_path / "venv"
    output(sys.executable, "-m", "venv", venv)
    # The package is not on an index yet: its wheel comes from a folder, everything else from pip's index.
    environ = {"PATH": f"{venv}/bin:{os.environ['PATH']}", "PIP_FIND_LINKS": str(wheel.parent)}
    output_of(typed("pip install 'elasticjob[cli]'", tmp_path, environ=environ), within_s=LONG_S)
    assert "kind: CustomResourceDefinition" in output(venv / "bin" / "elasticjob", "crd")
    output_of(typed("pip install 'elasticjob[cli,local]'", tmp_path, environ=environ), within_s=LONG_S)
    assert "etcd for `elasticjob run`" in output(venv / "bin" / "elasticjob", "doctor", "--machine")


def test_the_site_is_built_without_a_warning() -> None:
    text = output_of(typed("make docs", ROOT), within_s=LONG_S)
    assert "Documentation built" in text
    assert "WARNING" not in text


def test_the_commands_of_a_contributor_succeed() -> None:
    text = output_of(
        typed(".venv/bin/pytest tests/unit/operator tests/unit/api tests/unit/docs", ROOT), within_s=LONG_S
    )
    assert " passed" in text
    assert "Success: no issues found" in output_of(typed("make lint", ROOT), within_s=LONG_S)
