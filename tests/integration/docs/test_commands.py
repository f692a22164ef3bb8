"""Commands of the pages that need only this machine, typed as they are written (see commands.yaml)."""

import os
import re
import sys
from pathlib import Path

import pytest

from elasticjob_agent.net.ports import free_port
from elasticjob_etcd.embedded import EmbeddedEtcd
from tests.integration.docs.typed import output_of, typed
from tests.unit.docs.commands import ROOT

TRAIN = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
JOB = """
apiVersion: elasticjob.io/v1alpha1
kind: ElasticJob
metadata: {name: mine}
spec:
  nprocPerNode: 2
  template: {spec: {containers: [{name: trainer, image: none, command: [python, train.py]}]}}
"""

FAILS_ONCE = """
import os, sys, time
print("rank", os.environ["RANK"], "in round", os.environ["ELASTICJOB_ROUND"], flush=True)
if os.environ["ELASTICJOB_ROUND"] == "1":
    sys.exit("no data") if os.environ["RANK"] == "3" else time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a reader: a script, a manifest, and the project's environment as `.venv`."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


def ranks(text: str) -> list[int]:
    """Return the ranks, of four, that wrote that they ran."""
    return [int(rank) for rank in re.findall(r"\brank (\d) of 4\b", text)]


def test_make_help() -> None:
    assert "quickstart" in output_of(typed("make help", ROOT))


def test_a_manifest_runs_on_this_machine_and_timeline_shows_its_rounds(folder: Path) -> None:
    text = output_of(typed(".venv/bin/elasticjob run job.yaml", folder))
    assert "rank 1 of 2" in text
    assert "Succeeded" in text
    (run,) = (f"runs/{path.name}" for path in (folder / "runs").iterdir())
    for page in ("runs/digits-20261121T112415Z-31f5", "runs/digits-20261121T114212Z-7c1e --trace"):
        text = output_of(typed(f"elasticjob timeline {page}", folder, {page.partition(" ")[0]: run}))
        assert "round 1" in text


def test_the_commands_in_the_table_of_the_page_show_a_run(folder: Path) -> None:
    (folder / "train.py").write_text(FAILS_ONCE)
    (folder / "job.yaml").write_text(JOB.replace("nprocPerNode: 2", "nprocPerNode: 2\n  replicas: 2"))
    output_of(typed(".venv/bin/elasticjob run job.yaml", folder))
    (run,) = (folder / "runs").iterdir()

    def output(command: str) -> str:
        return output_of(typed(command, folder, {"digits": f"runs/{run.name}"}))

    assert output("elasticjob logs digits -r 3").splitlines() == ["rank 3 in round 2"]
    assert sorted(output("elasticjob logs digits --failed").splitlines()) == ["no data", "rank 3 in round 1"]
    assert "rank 0 in round 2" in output("elasticjob logs digits --round 2")
    assert "Succeeded: round 2, 1 restart" in output("elasticjob timeline digits")
    assert "Succeeded" in output("elasticjob watch digits")
    output_of(
        typed("elasticjob timeline digits --svg > digits.svg", folder, {"digits --svg": f"runs/{run.name} --svg"})
    )
    assert "<svg" in (folder / "digits.svg").read_text()


def test_two_nodes_start_with_the_options_of_torchrun(folder: Path) -> None:
    command = (
        "elasticjob-agent --nnodes 2:4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint node0:29400 "
        "--rdzv-id job1 train.py"
    )
    here = f"127.0.0.1:{free_port()}"
    nodes = [typed(command, folder, {"node0:29400": here}) for _ in range(2)]
    found = [int(rank) for node in nodes for rank in re.findall(r"\brank (\d+) of 16\b", output_of(node))]
    assert sorted(found) == list(range(16))


@pytest.mark.nightly
def test_make_quickstart_shows_a_killed_worker_and_a_job_that_continues() -> None:
    text = output_of(typed("make quickstart", ROOT))
    assert "was killed by SIGKILL in round 1" in text
    assert "Succeeded: 1 restart, no node losses, 2 rounds" in text


def test_one_node_without_a_manifest(folder: Path) -> None:
    text = output_of(typed(".venv/bin/elasticjob-agent --standalone --nproc-per-node 4 train.py", folder))
    assert sorted(ranks(text)) == [0, 1, 2, 3]


def test_two_nodes_over_etcd(folder: Path, etcd_server: EmbeddedEtcd) -> None:
    command = (
        ".venv/bin/elasticjob-agent --nnodes 2:4 --nproc-per-node 2 --rdzv-backend etcd --rdzv-endpoint HOST:2379 "
        "--rdzv-id job1 --max-restarts 3 train.py"
    )
    values = {"HOST:2379": etcd_server.endpoint.targets[0], "job1": f"docs-{os.getpid()}"}
    nodes = [typed(command, folder, values) for _ in range(2)]
    assert sorted(rank for node in nodes for rank in ranks(output_of(node))) == [0, 1, 2, 3]
