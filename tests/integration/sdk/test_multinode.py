"""`launch_nodes` over several nodes, each a process of its own, that meet at a real etcd."""

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
        self.asked = {"rdzv_endpoint": endpoint, "rdzv_id": self.rdzv_id, "join_timeout_s": LIMIT_S}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = folder / "nodes.log"

    def join(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """One more."""
        command = [sys.executable, "-m", "elasticjob.nodes", self.endpoint, "--rdzv-id", self.rdzv_id, *options]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, **variables})
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
def nodes(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[Nodes]:
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

    returned = threading.Event()

    def lose_it() -> None:
        eventually(lambda: are_both_here() or returned.is_set(), within_s=LIMIT_S, what="both ranks run")
        guest.kill()

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
    """`round.rank` of each time that the function began."""
    return sorted(path.name.rpartition(".")[0] for path in folder.iterdir() if path.name.count(".") == 2)


class LateGuest:
    """A node that gets the call, and joins it when `may_join` is set."""

    def __init__(self, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_the_call, self.may_join = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._real = run_node
        self._nodes = nodes
        self._thread = threading.Thread(target=self._live)
        monkeypatch.setattr(attending, "run_node", self._late)

    async def _late(self, *args: Any) -> Outcome:
        self.has_the_call.set()
        await asyncio.to_thread(self.may_join.wait, LIMIT_S)
        return await self._real(*args)

    def _live(self) -> None:
        try:
            join_nodes(self._nodes.endpoint, rdzv_id=self._nodes.rdzv_id, join_timeout_s=LIMIT_S)
        except BaseException as error:  # noqa: BLE001  # read by the test
            self.error = error

    def start(self) -> None:
        """Join, but for the last step."""
        self._thread.start()

    def end(self) -> None:
        """Wait until it has ended; raises what it raised."""
        self.may_join.set()
        self._thread.join(LIMIT_S)
        if self.error is not None:
            raise self.error


def test_a_node_that_comes_when_the_call_is_over_does_not_repeat_it(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    guest = LateGuest(nodes, monkeypatch)
    guest.start()

    def let_it_end() -> None:
        guest.has_the_call.wait(LIMIT_S)
        (tmp_path / "go").touch()

    threading.Thread(target=let_it_end).start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1:2", last_call_timeout_s=0.0) == {0: 0}
    guest.end()
    assert rounds_of(tmp_path) == ["1.0"]
    assert "the call was over before this node could take part in it" in caplog.messages


def test_a_call_that_the_others_ended_before_the_asker_took_part_has_its_results(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = threading.Thread(target=lambda: join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id))

    async def be_late(*args: Any) -> Outcome:
        guest.start()
        await asyncio.to_thread(guest.join, LIMIT_S)
        return await run_node(*args)

    monkeypatch.setattr(driver, "run_node", be_late)
    assert nodes.launch(functions.place, nnodes="1:2", last_call_timeout_s=0.0) == {0: (0, 1, 0)}


def test_a_call_of_one_node_invites_nobody_and_listens_to_this_machine_alone(nodes: Nodes, tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def look() -> None:
        eventually(lambda: rounds_of(tmp_path), within_s=LIMIT_S, what="the function runs")
        calls = asyncio.run(keys_below(nodes.endpoint, "/elasticjob/call/"))
        listening = [each for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        seen.extend([calls, {each.laddr.ip for each in listening}])
        (tmp_path / "go").touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1") == {0: 0}
    thread.join()
    assert seen == [set(), {"127.0.0.1"}]


async def keys_below(endpoint: str, prefix: str) -> set[str]:
    client = EtcdClient(Endpoint((endpoint,)))
    try:
        return {each.key for each in (await client.range(prefix)).kvs}
    finally:
        await client.close()


def test_what_is_in_etcd_lets_nobody_bring_a_result(nodes: Nodes, tmp_path: Path) -> None:
    """A result is unpickled by the asker; any user of the machine can read an etcd with a port."""
    seen: list[bytes] = []

    def look() -> None:
        try:
            eventually(lambda: rounds_of(tmp_path), within_s=LIMIT_S, what="the function runs")
            invitation = asyncio.run(value_of(nodes.endpoint, invitation_key(nodes.rdzv_id)))
            seen.append(delivered(**json.loads(invitation), payload=pickle.dumps(Trap(tmp_path / "trapped"))))
        finally:
            (tmp_path / "go").touch()

    thread = threading.Thread(target=look)
    thread.start()
    assert nodes.launch(functions.waits_for_file, tmp_path, nnodes="1:2", last_call_timeout_s=0.0) == {0: 0}
    thread.join()
    assert seen == [b""]
    assert not (tmp_path / "trapped").exists()


def test_a_stranger_who_invites_is_not_believed(nodes: Nodes, tmp_path: Path) -> None:
    """What an asker sends is unpickled by who joins; any user of the machine can write into an etcd with a port."""
    parcel = pickle.dumps(Trap(tmp_path / "trapped"))
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        invitation = {"host": "127.0.0.1", "port": stranger.getsockname()[1], "key": "k"}
        asyncio.run(write(nodes.endpoint, invitation_key(nodes.rdzv_id), json.dumps(invitation).encode()))
        guest = nodes.join("--join-timeout", "5")
        connection, _ = stranger.accept()
        with connection, connection.makefile("rwb") as stream:
            terms = {**TERMS, "size": len(parcel)}
            stream.write(b"0" * 32 + b"\n" + json.dumps(terms).encode() + b"\n" + b"0" * 64 + b"\n" + parcel)
            stream.flush()
            stream.read()
        assert guest.wait(LIMIT_S) == 1
    assert not (tmp_path / "trapped").exists()
    assert "does not send the call (the other end does not have the key of this call)" in nodes.said


def test_without_the_secret_a_node_has_no_part_in_a_call(nodes: Nodes) -> None:
    nodes.join("--join-timeout", "5", ELASTICJOB_CALL_SECRET="the secret of somebody else")
    with pytest.raises(TooFewNodes):
        nodes.launch(functions.place, nnodes="2", join_timeout_s=10.0, secret="the secret of this call")
    assert nodes.processes[0].wait(LIMIT_S) == 1
    assert "the driver closed the connection; check that both nodes have the same secret" in nodes.said


def test_with_the_secret_nodes_come_together(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("the secret of this call\n")
    file.chmod(0o600)
    guest = nodes.join(ELASTICJOB_CALL_SECRET_FILE=str(file))
    assert nodes.launch(functions.place, nnodes="2", secret="the secret of this call") == {0: (0, 2, 0), 1: (1, 2, 1)}
    assert guest.wait(LIMIT_S) == 0, nodes.said


class Trap:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


TERMS = {
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
    """What is answered to who brings this as the result of rank 0, with all that is known from etcd."""
    hello = {"kind": "result", "host": "x", "round": 1, "rank": 0, "world_size": 1, "how": VALUE, "size": len(payload)}
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


def test_when_the_asker_is_interrupted_the_others_stop_and_do_not_go_on_without_it(
    nodes: Nodes, tmp_path: Path
) -> None:
    program = (
        "from elasticjob import launch_nodes; from tests.integration.sdk import functions; from pathlib import Path\n"
        f"launch_nodes(functions.waits_for, (Path({str(tmp_path)!r}), 9), nnodes='1:2', "
        f"last_call_timeout_s={LIMIT_S}, **{nodes.asked!r})"
    )
    guest = nodes.join()
    caller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    nodes.processes.append(caller)
    eventually(lambda: len(rounds_of(tmp_path)) == 2, within_s=LIMIT_S, what="both ranks run")
    caller.send_signal(signal.SIGINT)
    assert guest.wait(LIMIT_S) == 1
    assert "has ended or is unreachable; this node has stopped" in nodes.said
    pids = [int(path.name.rpartition(".")[2]) for path in tmp_path.glob("*.[01].*")]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=LIMIT_S, what="no worker lives")


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
    assert "has ended or is unreachable; this node has stopped" in nodes.said
    pids = [int(path.name.rpartition(".")[2]) for path in tmp_path.glob("*.[01].*")]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=LIMIT_S, what="no worker lives")


def test_too_few_nodes_are_told_in_words(nodes: Nodes) -> None:
    with pytest.raises(TooFewNodes, match="run join_nodes on more nodes, or lower nnodes"):
        nodes.launch(functions.place, nnodes="2", join_timeout_s=5.0)


def test_a_node_that_nobody_calls_says_so(nodes: Nodes) -> None:
    with pytest.raises(
        NoRendezvous, match=f"no driver has called for '{nodes.rdzv_id}', after 0.2 s; call launch_nodes"
    ):
        join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id, join_timeout_s=0.2)


def test_two_that_ask_under_one_name_are_told_apart(nodes: Nodes, tmp_path: Path) -> None:
    def ask_too() -> None:
        eventually(lambda: list(tmp_path.glob("*.0.*")), within_s=LIMIT_S, what="the first one runs")
        with pytest.raises(NoRendezvous, match=r"another driver uses rdzv_id .*; choose another rdzv_id"):
            nodes.launch(functions.place, nnodes="1:2")
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
        assert nodes.processes[0].wait(LIMIT_S) == 0, nodes.said
    finally:
        thread.join()
        nodes.close()
    assert (reached, len(sockets)) == ([], 1)


@other_user.needs_root
def test_another_user_who_has_the_port_already_is_not_met_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    nodes = Nodes(f"127.0.0.1:{port}", tmp_path)
    told = f"the server at 127.0.0.1:{port} belongs to the user with uid 65534"
    try:
        with other_user.listening(port):
            with pytest.raises(NoRendezvous, match=f"no driver has called for .*{told}"):
                join_nodes(nodes.endpoint, rdzv_id=nodes.rdzv_id, join_timeout_s=0.5)
            caplog.clear()
            nodes.join()
            assert nodes.launch(functions.place, nnodes="2", join_timeout_s=30.0) == {0: (0, 2, 0), 1: (1, 2, 1)}
        assert told in caplog.text
    finally:
        nodes.close()


def test_when_the_etcd_that_the_asker_started_is_gone_the_call_ends(tmp_path: Path) -> None:
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
        f"    print(elasticjob.launch_nodes(rank, (10,), nnodes='2', **{nodes.asked!r}))\n"
    )
    nodes.join()
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=scaled(LIMIT_S), check=False
    )
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
    _, said = asker.communicate(timeout=scaled(LIMIT_S))
    assert "MainProcessError: SIGINT received" in said
    assert children
    eventually(lambda: not any(child.is_running() for child in children), within_s=LIMIT_S, what="nobody lives")
