"""`launch_nodes` over several nodes, each a process of its own, that meet at a real etcd."""

import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from elasticjob.errors import CallFailed, NoRendezvous, TooFewNodes
from elasticjob.nodes.launcher import join_nodes, launch_nodes
from elasticjob_agent.launch import free_port
from elasticjob_etcd.server import EtcdServer
from tests.faults.waiting import eventually
from tests.integration.sdk import functions

pytestmark = pytest.mark.etcd
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 100.0


class Nodes:
    """Other nodes, which join one call."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.endpoint = endpoint
        self.rdzv_id = uuid.uuid4().hex
        self.asked = {"rdzv_endpoint": endpoint, "rdzv_id": self.rdzv_id, "join_timeout_s": LIMIT_S}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = folder / "nodes.log"

    def join(self, *options: str) -> subprocess.Popen[bytes]:
        """One more."""
        command = [sys.executable, "-m", "elasticjob.nodes", self.endpoint, "--rdzv-id", self.rdzv_id, *options]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        self.processes.append(process)
        return process

    def launch(self, fn: Callable[..., Any], *args: Any, **options: Any) -> dict[int, Any]:
        """This one asks."""
        return launch_nodes(fn, args, **{**self.asked, **options})

    @property
    def said(self) -> str:
        """By all of them."""
        return self._log.read_text()

    def close(self) -> None:
        """End what is left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(LIMIT_S)


@pytest.fixture
def nodes(etcd_server: EtcdServer, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(etcd_server.endpoint.targets[0], tmp_path)
    yield made
    made.close()


def test_every_ranks_result_comes_to_the_node_that_asked(nodes: Nodes) -> None:
    guest = nodes.join()
    found = nodes.launch(functions.place, nprocs=2, nnodes="2")
    assert list(found) == [0, 1, 2, 3]
    assert found == {rank: (rank, 4, rank // 2) for rank in range(4)}
    assert guest.wait(LIMIT_S) == 0, nodes.said


def test_a_node_may_have_another_number_of_processes(nodes: Nodes) -> None:
    nodes.join("--nprocs", "3")
    assert len(nodes.launch(functions.place, nprocs=1, nnodes="2")) == 4


def test_results_that_no_etcd_would_take_come_whole(nodes: Nodes) -> None:
    nodes.join()
    size = 20 << 20
    found = nodes.launch(functions.big, size, nnodes="2")
    assert [(value[:1], len(value), len(set(value))) for value in found.values()] == [
        (b"\0", size, 1),
        (b"\1", size, 1),
    ]


def test_a_failure_on_another_node_is_told_with_its_traceback(nodes: Nodes) -> None:
    guest = nodes.join()
    with pytest.raises(CallFailed, match=r"rank 1 on .* exited with code 1: ValueError: no luck on rank 1") as caught:
        nodes.launch(functions.raises_on, 1, nnodes="2")
    failure = caught.value.failures[1]
    assert (failure.error, failure.host) == ("ValueError: no luck on rank 1", socket.gethostname())
    assert "in raises_on" in failure.traceback
    assert failure.traceback.rstrip() in str(caught.value)
    assert guest.wait(LIMIT_S) == 1
    assert "no luck on rank 1" in nodes.said


def test_a_rank_that_is_killed_is_told_by_the_rendezvous(nodes: Nodes) -> None:
    nodes.join()
    with pytest.raises(CallFailed, match=r"rank 1 on .*SIGKILL") as caught:
        nodes.launch(functions.dies_on, 1, nnodes="2")
    assert caught.value.failures == {}


def test_a_node_that_is_lost_in_the_middle_costs_a_round_and_no_result(nodes: Nodes, tmp_path: Path) -> None:
    guest = nodes.join()

    def lose_it() -> None:
        eventually(lambda: len(list(tmp_path.glob("*.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
        guest.kill()

    thread = threading.Thread(target=lose_it)
    thread.start()
    found = nodes.launch(functions.waits_for, tmp_path, 1, nnodes="1:2", last_call_timeout_s=LIMIT_S)
    thread.join()
    assert found == {0: (0, 1)}


def test_a_node_that_joins_later_is_taken_in(nodes: Nodes, tmp_path: Path) -> None:
    def add_one() -> None:
        eventually(lambda: list(tmp_path.glob("*.0.*")), within_s=LIMIT_S, what="the first rank runs")
        nodes.join()

    thread = threading.Thread(target=add_one)
    thread.start()
    found = nodes.launch(functions.waits_for, tmp_path, 2, nnodes="1:2", last_call_timeout_s=0.1)
    thread.join()
    assert found == {0: (0, 2), 1: (1, 2)}


def test_when_the_asker_is_gone_the_others_stop(nodes: Nodes, tmp_path: Path) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nnodes='2', **{nodes.asked!r})"
    )
    guest = nodes.join()
    asker = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    nodes.processes.append(asker)
    eventually(lambda: len(list(tmp_path.glob("*.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
    asker.kill()
    assert guest.wait(LIMIT_S) == 1
    assert "is gone; this node has stopped" in nodes.said
    pids = [int(path.name.rpartition(".")[2]) for path in tmp_path.glob("*.[01].*")]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=LIMIT_S, what="no worker lives")


def test_too_few_nodes_are_told_in_words(nodes: Nodes) -> None:
    with pytest.raises(TooFewNodes, match="start join_nodes on more of them, or lower nnodes"):
        nodes.launch(functions.place, nnodes="2", join_timeout_s=5.0)


def test_a_node_that_nobody_calls_says_so(nodes: Nodes) -> None:
    with pytest.raises(NoRendezvous, match=f"nobody calls for '{nodes.rdzv_id}', after 0.2 s; call launch_nodes"):
        join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id, join_timeout_s=0.2)


def test_two_that_ask_under_one_name_are_told_apart(nodes: Nodes, tmp_path: Path) -> None:
    def ask_too() -> None:
        eventually(lambda: list(tmp_path.glob("*.0.*")), within_s=LIMIT_S, what="the first one runs")
        with pytest.raises(NoRendezvous, match=r"somebody else calls for .*; give this call another rdzv_id"):
            nodes.launch(functions.place, nnodes="1")
        nodes.join()

    thread = threading.Thread(target=ask_too)
    thread.start()
    found = nodes.launch(functions.waits_for, tmp_path, 2, nnodes="1:2", last_call_timeout_s=0.1)
    thread.join()
    assert len(found) == 2


def test_where_nothing_listens_the_asker_starts_the_etcd(tmp_path: Path) -> None:
    nodes = Nodes(f"127.0.0.1:{free_port()}", tmp_path)
    try:
        guest = nodes.join()
        assert nodes.launch(functions.place, nnodes="2") == {0: (0, 2, 0), 1: (1, 2, 1)}
        assert guest.wait(LIMIT_S) == 0, nodes.said
    finally:
        nodes.close()


def test_functions_of_the_main_script_run_on_all_nodes(nodes: Nodes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, elasticjob\n"
        "def rank(base):\n    return base + int(os.environ['RANK'])\n"
        "if __name__ == '__main__':\n"
        f"    print(elasticjob.launch_nodes(rank, (10,), nnodes='2', **{nodes.asked!r}))\n"
    )
    nodes.join()
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout == "{0: 10, 1: 11}\n", done.stderr


def test_an_interrupted_asker_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nprocs=2)"
    )
    asker = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    eventually(lambda: len(list(tmp_path.glob("*.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
    children = psutil.Process(asker.pid).children(recursive=True)
    os.kill(asker.pid, signal.SIGINT)
    _, said = asker.communicate(timeout=LIMIT_S)
    assert "MainProcessError: SIGINT received" in said
    assert children
    eventually(lambda: not any(child.is_running() for child in children), within_s=LIMIT_S, what="nobody lives")
