"""`launch_nodes` over several nodes, each of them a process, which meet at a real etcd."""

import asyncio
import json
import logging
import os
import pickle
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
from elasticjob.multinode import driver, protocol
from elasticjob.multinode import join as attending
from elasticjob.multinode.authentication import Authenticator
from elasticjob.multinode.discovery import invitation_key
from elasticjob.multinode.launcher import join_nodes, launch_nodes
from elasticjob_agent.launch import free_port
from elasticjob_agent.node.run_node import run_node
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.supervisor.function_worker import VALUE
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Endpoint, Put, Txn
from testing.processes import other_user
from testing.waiting import eventually, scaled
from tests.integration.sdk import functions

pytestmark = pytest.mark.etcd
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 100.0


class Nodes:
    """Other nodes, which join one call."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.endpoint = endpoint
        self.rdzv_id = uuid.uuid4().hex
        self.options = {"rdzv_endpoint": endpoint, "rdzv_id": self.rdzv_id, "join_timeout_s": LIMIT_S}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = folder / "nodes.log"

    def join(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start one more node."""
        command = [sys.executable, "-m", "elasticjob.nodes", self.endpoint, "--rdzv-id", self.rdzv_id, *options]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, **variables})
        self.processes.append(process)
        return process

    def launch(self, fn: Callable[..., Any], *args: Any, **options: Any) -> dict[int, Any]:
        """Run the driver in this process."""
        return launch_nodes(fn, args, **{**self.options, **options})

    @property
    def output(self) -> str:
        """The output of all of them."""
        return self._log.read_text()

    def close(self) -> None:
        """End the nodes that are left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(LIMIT_S)


@pytest.fixture
def nodes(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(etcd_server.endpoint.targets[0], tmp_path)
    yield made
    made.close()


def test_the_driver_receives_every_ranks_result(nodes: Nodes) -> None:
    other = nodes.join()
    found = nodes.launch(functions.place, nprocs=2, nnodes="2")
    assert list(found) == [0, 1, 2, 3]
    assert found == {rank: (rank, 4, rank // 2) for rank in range(4)}
    assert other.wait(LIMIT_S) == 0, nodes.output


def test_a_node_may_have_another_number_of_processes(nodes: Nodes) -> None:
    nodes.join("--nprocs", "3")
    assert len(nodes.launch(functions.place, nprocs=1, nnodes="2")) == 4


def test_results_too_large_for_etcd_arrive_complete(nodes: Nodes) -> None:
    nodes.join()
    size = 20 << 20
    found = nodes.launch(functions.big, size, nnodes="2")
    assert [(value[:1], len(value), len(set(value))) for value in found.values()] == [
        (b"\0", size, 1),
        (b"\1", size, 1),
    ]


def test_a_failure_on_another_node_is_reported_with_its_traceback(nodes: Nodes) -> None:
    other = nodes.join()
    with pytest.raises(CallFailed, match=r"rank 1 on .* exited with code 1: ValueError: no luck on rank 1") as caught:
        nodes.launch(functions.raises_on, 1, nnodes="2")
    failure = caught.value.failures[1]
    assert (failure.error, failure.host) == ("ValueError: no luck on rank 1", socket.gethostname())
    assert "in raises_on" in failure.traceback
    assert failure.traceback.rstrip() in str(caught.value)
    assert other.wait(LIMIT_S) == 1
    assert "no luck on rank 1" in nodes.output


def test_a_killed_rank_is_reported_by_the_rendezvous(nodes: Nodes) -> None:
    nodes.join()
    with pytest.raises(CallFailed, match=r"rank 1 on .*SIGKILL") as caught:
        nodes.launch(functions.dies_on, 1, nnodes="2")
    assert caught.value.failures == {}


def test_a_lost_node_costs_a_round_and_no_result(nodes: Nodes, tmp_path: Path) -> None:
    other = nodes.join()

    returned = threading.Event()

    def lose_it() -> None:
        eventually(lambda: are_both_here() or returned.is_set(), within_s=LIMIT_S, what="both ranks run")
        other.kill()

    def are_both_here() -> bool:
        return bool(list(tmp_path.glob("1.0.*")) and list(tmp_path.glob("1.1.*")))

    thread = threading.Thread(target=lose_it)
    thread.start()
    try:
        found = nodes.launch(functions.waits_for, tmp_path, 1, nnodes="1:2", last_call_timeout_s=LIMIT_S)
    finally:
        returned.set()
        thread.join()
    assert found == {0: (0, 1)}
    assert are_both_here(), "the first round did not wait for the second node"


def rounds_of(folder: Path) -> list[str]:
    """Return `round.rank` of each start of the function."""
    return sorted(path.name.rpartition(".")[0] for path in folder.iterdir() if path.name.count(".") == 2)


class LateNode:
    """A node that receives the call, and joins it when `may_join` is set."""

    def __init__(self, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_the_call, self.may_join = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._real = run_node
        self._nodes = nodes
        self._thread = threading.Thread(target=self._run)
        monkeypatch.setattr(attending, "run_node", self._late)

    async def _late(self, *args: Any) -> Outcome:
        self.has_the_call.set()
        await asyncio.to_thread(self.may_join.wait, LIMIT_S)
        return await self._real(*args)

    def _run(self) -> None:
        try:
            join_nodes(self._nodes.endpoint, rdzv_id=self._nodes.rdzv_id, join_timeout_s=LIMIT_S)
        except BaseException as error:  # noqa: BLE001  # read by the test
            self.error = error

    def start(self) -> None:
        """Join, except for the last step."""
        self._thread.start()

    def end(self) -> None:
        """Wait for its end; raise its error."""
        self.may_join.set()
        self._thread.join(LIMIT_S)
        if self.error is not None:
            raise self.error


def test_a_node_that_joins_after_the_end_of_a_call_does_not_repeat_it(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    late = LateNode(nodes, monkeypatch)
    late.start()

    def let_it_end() -> None:
        late.has_the_call.wait(LIMIT_S)
        (tmp_path / "go").touch()

    threading.Thread(target=let_it_end).start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1:2", last_call_timeout_s=0.0) == {0: 0}
    late.end()
    assert rounds_of(tmp_path) == ["1.0"]
    assert "the call was over before this node could take part in it" in caplog.messages


def test_a_call_that_the_other_nodes_ended_without_the_driver_has_its_results(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = threading.Thread(target=lambda: join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id))

    async def be_late(*args: Any) -> Outcome:
        other.start()
        await asyncio.to_thread(other.join, LIMIT_S)
        return await run_node(*args)

    monkeypatch.setattr(driver, "run_node", be_late)
    assert nodes.launch(functions.place, nnodes="1:2", last_call_timeout_s=0.0) == {0: (0, 1, 0)}


def test_a_call_of_one_node_invites_no_others_and_listens_only_on_loopback(nodes: Nodes, tmp_path: Path) -> None:
    found: list[set[str]] = []

    def look() -> None:
        eventually(lambda: rounds_of(tmp_path), within_s=LIMIT_S, what="the function runs")
        calls = asyncio.run(keys_below(nodes.endpoint, "/elasticjob/call/"))
        listening = [each for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        found.extend([calls, {each.laddr.ip for each in listening}])
        (tmp_path / "go").touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1") == {0: 0}
    thread.join()
    assert found == [set(), {"127.0.0.1"}]


async def keys_below(endpoint: str, prefix: str) -> set[str]:
    client = EtcdClient(Endpoint((endpoint,)))
    try:
        return {each.key for each in (await client.range(prefix)).kvs}
    finally:
        await client.close()


def test_a_reader_of_etcd_cannot_deliver_a_result(nodes: Nodes, tmp_path: Path) -> None:
    # The driver unpickles a result, and any user of the machine can read an etcd with a port.
    answers: list[bytes] = []

    def look() -> None:
        try:
            eventually(lambda: rounds_of(tmp_path), within_s=LIMIT_S, what="the function runs")
            invitation = asyncio.run(value_of(nodes.endpoint, invitation_key(nodes.rdzv_id)))
            answers.append(delivered(**json.loads(invitation), payload=pickle.dumps(Trap(tmp_path / "trapped"))))
        finally:
            (tmp_path / "go").touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1:2", last_call_timeout_s=0.0) == {0: 0}
    thread.join()
    assert answers == [b""]
    assert not (tmp_path / "trapped").exists()


def test_an_invitation_without_the_secret_is_not_followed(nodes: Nodes, tmp_path: Path) -> None:
    # A node that joins unpickles the call, and any user of the machine can write to an etcd with a port.
    payload = pickle.dumps(Trap(tmp_path / "trapped"))
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        invitation = {"host": "127.0.0.1", "port": stranger.getsockname()[1], "key": "k"}
        asyncio.run(write(nodes.endpoint, invitation_key(nodes.rdzv_id), json.dumps(invitation).encode()))
        node = nodes.join("--join-timeout", "5")
        connection, _ = stranger.accept()
        with connection, connection.makefile("rwb") as stream:
            spec = {**SPEC, "size": len(payload)}
            stream.write(b"0" * 32 + b"\n" + json.dumps(spec).encode() + b"\n" + b"0" * 64 + b"\n" + payload)
            stream.flush()
            stream.read()
        assert node.wait(LIMIT_S) == 1
    assert not (tmp_path / "trapped").exists()
    assert "does not send the call (the other end does not have the key of this call)" in nodes.output


def test_a_node_without_the_secret_cannot_join_a_call(nodes: Nodes) -> None:
    nodes.join("--join-timeout", "5", ELASTICJOB_CALL_SECRET="the secret of another call")
    with pytest.raises(TooFewNodes):
        nodes.launch(functions.place, nnodes="2", join_timeout_s=10.0, secret="the secret of this call")
    assert nodes.processes[0].wait(LIMIT_S) == 1
    assert "the driver closed the connection; check that both nodes have the same secret" in nodes.output


def test_nodes_with_the_same_secret_join_a_call(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("the secret of this call\n")
    file.chmod(0o600)
    other = nodes.join(ELASTICJOB_CALL_SECRET_FILE=str(file))
    assert nodes.launch(functions.place, nnodes="2", secret="the secret of this call") == {0: (0, 2, 0), 1: (1, 2, 1)}
    assert other.wait(LIMIT_S) == 0, nodes.output


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


SPEC = {
    "run_id": "evil",
    "nprocs": 1,
    "min_nodes": 1,
    "max_nodes": 1,
    "max_restarts": 0,
    "join_timeout_s": 5.0,
    "last_call_timeout_s": 0.0,
    "max_result_bytes": 1000,
}


def delivered(host: str, port: int, key: str, *, payload: bytes) -> bytes:
    """Deliver this as the result of rank 0, with all data from etcd; return the answer."""
    hello = {
        "kind": "result",
        "host": "x",
        "round": 1,
        "rank": 0,
        "world_size": 1,
        "outcome": VALUE,
        "size": len(payload),
    }
    with socket.create_connection((host, port), timeout=LIMIT_S) as connection, connection.makefile("rwb") as stream:
        challenge = stream.readline()
        line = json.dumps({"nonce": "n", **hello}).encode() + b"\n"
        for purpose, data in ((protocol.HELLO, line), (protocol.RESULT_HELLO, payload)):
            seal = Authenticator(key, purpose, challenge)
            seal.update(data)
            stream.write(data + seal.line)
        try:
            stream.flush()
            return stream.read()
        except ConnectionError:
            return b""


async def value_of(endpoint: str, key: str) -> bytes:
    client = EtcdClient(Endpoint((endpoint,)))
    try:
        found = await client.get(key)
        assert found is not None
        return found.value
    finally:
        await client.close()


async def write(endpoint: str, key: str, value: bytes) -> None:
    client = EtcdClient(Endpoint((endpoint,)))
    try:
        await client.txn(Txn((), (Put(key, value),)))
    finally:
        await client.close()


def test_one_call_may_follow_another_under_the_same_name(nodes: Nodes) -> None:
    for _ in range(2):
        assert nodes.launch(functions.place, nnodes="1:2", last_call_timeout_s=0.0) == {0: (0, 1, 0)}


def test_an_interrupted_driver_stops_the_other_nodes(nodes: Nodes, tmp_path: Path) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nnodes='1:2', "
        f"last_call_timeout_s={LIMIT_S}, **{nodes.options!r})"
    )
    other = nodes.join()
    caller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    nodes.processes.append(caller)
    eventually(lambda: len(rounds_of(tmp_path)) == 2, within_s=LIMIT_S, what="both ranks run")
    caller.send_signal(signal.SIGINT)
    assert other.wait(LIMIT_S) == 1
    assert "has ended or is unreachable; this node has stopped" in nodes.output
    pids = [int(path.name.rpartition(".")[2]) for path in tmp_path.glob("*.[01].*")]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=LIMIT_S, what="no worker lives")


def test_a_node_can_join_later(nodes: Nodes, tmp_path: Path) -> None:
    def add_one() -> None:
        eventually(lambda: list(tmp_path.glob("*.0.*")), within_s=LIMIT_S, what="the first rank runs")
        nodes.join()

    thread = threading.Thread(target=add_one)
    thread.start()
    found = nodes.launch(functions.waits_for, tmp_path, 2, nnodes="1:2", last_call_timeout_s=0.1)
    thread.join()
    assert found == {0: (0, 2), 1: (1, 2)}


def test_the_other_nodes_stop_when_the_driver_is_killed(nodes: Nodes, tmp_path: Path) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nnodes='2', **{nodes.options!r})"
    )
    other = nodes.join()
    caller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    nodes.processes.append(caller)
    eventually(lambda: len(list(tmp_path.glob("*.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
    caller.kill()
    assert other.wait(LIMIT_S) == 1
    assert "has ended or is unreachable; this node has stopped" in nodes.output
    pids = [int(path.name.rpartition(".")[2]) for path in tmp_path.glob("*.[01].*")]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=LIMIT_S, what="no worker lives")


def test_too_few_nodes_are_an_error_with_a_cure(nodes: Nodes) -> None:
    with pytest.raises(TooFewNodes, match="run join_nodes on more nodes, or lower nnodes"):
        nodes.launch(functions.place, nnodes="2", join_timeout_s=5.0)


def test_a_node_without_a_driver_raises_an_error(nodes: Nodes) -> None:
    with pytest.raises(
        NoRendezvous, match=f"no driver has called for '{nodes.rdzv_id}', after 0.2 s; call launch_nodes"
    ):
        join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id, join_timeout_s=0.2)


def test_a_second_driver_with_the_same_rdzv_id_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    def call_too() -> None:
        eventually(lambda: list(tmp_path.glob("*.0.*")), within_s=LIMIT_S, what="the first one runs")
        with pytest.raises(NoRendezvous, match=r"another driver uses rdzv_id .*; choose another rdzv_id"):
            nodes.launch(functions.place, nnodes="1:2")
        nodes.join()

    thread = threading.Thread(target=call_too)
    thread.start()
    found = nodes.launch(functions.waits_for, tmp_path, 2, nnodes="1:2", last_call_timeout_s=0.1)
    thread.join()
    assert len(found) == 2


def test_the_driver_starts_etcd_where_nothing_listens(tmp_path: Path) -> None:
    nodes = Nodes(f"127.0.0.1:{free_port()}", tmp_path)
    try:
        other = nodes.join()
        assert nodes.launch(functions.place, nnodes="2") == {0: (0, 2, 0), 1: (1, 2, 1)}
        assert other.wait(LIMIT_S) == 0, nodes.output
    finally:
        nodes.close()


@other_user.needs_root
def test_another_user_reaches_no_etcd_of_a_call_whose_nodes_meet_on_this_machine(
    tmp_path: Path, open_folder: Path
) -> None:
    port = free_port()
    nodes = Nodes(f"localhost:{port}", tmp_path)
    reached, sockets = list[str](), list[str]()

    def attack() -> None:
        try:
            eventually(lambda: len(list(tmp_path.glob("1.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
            sockets.extend(f"unix:{path}" for path in open_folder.rglob("client:0"))
            reached.extend(other_user.deletes_all(f"127.0.0.1:{port}", f"[::1]:{port}", *sockets))
        finally:
            (tmp_path / "go").touch()

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        nodes.join()
        assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="2") == {0: 0, 1: 1}
        assert nodes.processes[0].wait(LIMIT_S) == 0, nodes.output
    finally:
        thread.join()
        nodes.close()
    assert (reached, len(sockets)) == ([], 1)


@other_user.needs_root
def test_a_server_of_another_user_at_the_port_is_not_used_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    nodes = Nodes(f"127.0.0.1:{port}", tmp_path)
    reason = f"the server at 127.0.0.1:{port} belongs to the user with uid 65534"
    try:
        with other_user.listening(port):
            with pytest.raises(NoRendezvous, match=f"no driver has called for .*{reason}"):
                join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id, join_timeout_s=0.5)
            caplog.clear()
            nodes.join()
            assert nodes.launch(functions.place, nnodes="2", join_timeout_s=30.0) == {0: (0, 2, 0), 1: (1, 2, 1)}
        assert reason in caplog.text
    finally:
        nodes.close()


def test_the_call_ends_when_the_drivers_etcd_is_killed(tmp_path: Path) -> None:
    others = set(psutil.Process().children())  # the session's etcd, too

    def kill_it() -> None:
        eventually(lambda: rounds_of(tmp_path), within_s=LIMIT_S, what="the function runs")
        next(child for child in set(psutil.Process().children()) - others if child.name() == "etcd").kill()

    thread = threading.Thread(target=kill_it)
    thread.start()
    with pytest.raises(NoRendezvous, match=r"the etcd that this process had started has ended \(signal SIGKILL"):
        launch_nodes(functions.waits_for, (tmp_path, 9))
    thread.join()


def test_functions_of_the_main_script_run_on_all_nodes(nodes: Nodes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, elasticjob\n"
        "def rank(base):\n    return base + int(os.environ['RANK'])\n"
        "if __name__ == '__main__':\n"
        f"    print(elasticjob.launch_nodes(rank, (10,), nnodes='2', **{nodes.options!r}))\n"
    )
    nodes.join()
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=scaled(LIMIT_S), check=False
    )
    assert done.stdout == "{0: 10, 1: 11}\n", done.stderr


def test_an_interrupted_driver_leaves_no_process(tmp_path: Path) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nprocs=2)"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    eventually(lambda: len(list(tmp_path.glob("*.[01].*"))) == 2, within_s=LIMIT_S, what="both ranks run")
    children = psutil.Process(caller.pid).children(recursive=True)
    os.kill(caller.pid, signal.SIGINT)
    _, output = caller.communicate(timeout=scaled(LIMIT_S))
    assert "MainProcessError: SIGINT received" in output
    assert children
    eventually(lambda: not any(child.is_running() for child in children), within_s=LIMIT_S, what="no process lives")
