"""Commands of the pages that need nothing but this machine, typed as they stand there (commands.yaml says which)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_etcd.server import EtcdServer
from tests.unit.docs.commands import ROOT, commands

LONGEST_S = 90.0
TRAIN = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
JOB = """
apiVersion: elasticjob.io/v1alpha1
kind: ElasticJob
metadata: {name: mine}
spec:
  nprocPerNode: 2
  template: {spec: {containers: [{name: trainer, image: none, command: [python, train.py]}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader has: a script, a manifest, and the project's environment as `.venv`."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


def typed(command: str, folder: Path, **values: str) -> "subprocess.Popen[str]":
    """Start a command that a page has."""
    assert command in {told for _, told in commands()}
    for name, value in values.items():
        command = command.replace(name, value)
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.Popen(
        ("bash", "-c", f"exec {command}"),
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: "subprocess.Popen[str]") -> str:
    """What it printed; it ended well."""
    try:
        text, _ = process.communicate(timeout=LONGEST_S)
    finally:
        process.kill()
    assert process.returncode == 0, text
    return text


def ranks(text: str) -> list[int]:
    """Those of four that said that they ran."""
    return [int(rank) for rank in re.findall(r"\brank (\d) of 4\b", text)]


def test_make_help() -> None:
    assert "quickstart" in said(typed("make help", ROOT))


def test_a_manifest_runs_on_this_machine(folder: Path) -> None:
    text = said(typed(".venv/bin/elasticjob run job.yaml", folder))
    assert "rank 1 of 2" in text
    assert "Succeeded" in text


def test_one_node_without_a_manifest(folder: Path) -> None:
    text = said(typed(".venv/bin/elasticjob-agent --standalone --nproc-per-node 4 train.py", folder))
    assert sorted(ranks(text)) == [0, 1, 2, 3]


def test_two_nodes_over_etcd(folder: Path, etcd_server: EtcdServer) -> None:
    command = (
        ".venv/bin/elasticjob-agent --nnodes 2:4 --nproc-per-node 2 --rdzv-backend etcd --rdzv-endpoint HOST:2379 "
        "--rdzv-id job1 --max-restarts 3 train.py"
    )
    host = etcd_server.endpoint.targets[0]
    nodes = [typed(command, folder, **{"HOST:2379": host, "job1": f"docs-{os.getpid()}"}) for _ in range(2)]
    assert sorted(rank for node in nodes for rank in ranks(said(node))) == [0, 1, 2, 3]
