"""Several local agents of one job over a real etcd: failures, losses, roles, and one end for all."""

import contextlib
import itertools
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.waiting import eventually, scaled
from tests.integration.server.fleet import WITHIN_S, AgentProcess, Fleet, alive, fleet

pytestmark = pytest.mark.etcd


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


@pytest.fixture
def run_id() -> str:
    return uuid.uuid4().hex


def start(
    agents: Fleet,
    server: EmbeddedEtcd,
    run_id: str,
    *,
    low: int = 2,
    high: int = 2,
    entrypoint: str = "waits_for",
    **more: Any,
) -> AgentProcess:
    rendezvous = {
        "backend": "etcd",
        "endpoint": server.endpoint.targets[0],
        "run_id": run_id,
        "min_nodes": low,
        "max_nodes": high,
        "local_addr": "127.0.0.1",
        "keep_alive": 2,
        "last_call_timeout": 1,
    }
    return agents.start(entrypoint, rendezvous=rendezvous, **more)


def test_b_004_06_agents_of_two_roles_have_contiguous_ranks_and_end_together(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    made = [start(agents, etcd_server, run_id, role=role, nproc=n) for role, n in (("ps", 1), ("trainer", 2))]
    workers = agents.await_running(3)
    assert [worker["RANK"] for worker in workers] == ["0", "1", "2"]
    by_role = {role: [w["ROLE_RANK"] for w in workers if w["ROLE_NAME"] == role] for role in ("ps", "trainer")}
    assert by_role == {"ps": ["0"], "trainer": ["0", "1"]}
    assert len({(w["MASTER_ADDR"], w["MASTER_PORT"]) for w in workers}) == 1
    agents.finish()
    results = [agent.result() for agent in made]
    assert [result["state"] for result in results] == ["SUCCEEDED"] * 2
    assert sorted(value for result in results for value in result["values"].values()) == ["0", "1", "2"]


FORK = """
import multiprocessing, sys
from elasticjob_agent.rendezvous import RendezvousParameters
from elasticjob_agent.rendezvous.registry import get_rendezvous_handler
from elasticjob_agent.server import WorkerSpec
from elasticjob_agent.server.local_elastic_agent import LocalElasticAgent

def run(name):
    parameters = RendezvousParameters("etcd", sys.argv[1], name, 1, 1, local_addr="127.0.0.1")
    handler = get_rendezvous_handler(parameters)
    spec = WorkerSpec(role="r", local_world_size=1, entrypoint="true", rdzv_handler=handler, monitor_interval=1)
    print(LocalElasticAgent(spec).run().state.name, flush=True)

run(sys.argv[2])
child = multiprocessing.get_context("fork").Process(target=run, args=(sys.argv[2] + "-2",))
child.start()
child.join()
print(child.exitcode)
"""


def test_an_agent_in_a_fork_of_a_process_that_ran_one_ends_at_once_with_the_cure(
    etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    command = [sys.executable, "-c", FORK, etcd_server.endpoint.targets[0], run_id]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=scaled(WITHIN_S), check=True)
    assert ended.stdout.split() == ["SUCCEEDED", "1"]
    assert "RendezvousConnectionError: the rendezvous ended: this process cannot use etcd" in ended.stderr
    assert "Start it by the method 'spawn' or 'forkserver'" in ended.stderr


def test_k_004_01_failed_worker_restarts_all_agents_and_all_count_it(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    made = [start(agents, etcd_server, run_id, nproc=2) for _ in range(2)]
    agents.await_running(4)
    (agents.reports / "fail.3").touch()
    assert {worker["RANK"] for worker in agents.await_running(4, restart=1)} == {"0", "1", "2", "3"}
    agents.finish()
    assert [(r["state"], r["restarts"]) for r in (agent.result() for agent in made)] == [("SUCCEEDED", 1)] * 2


def test_b_004_38_spent_budget_ends_both_agents(agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str) -> None:
    made = [start(agents, etcd_server, run_id, spec={"max_restarts": 0}) for _ in range(2)]
    agents.await_running(2)
    (agents.reports / "fail.1").touch()
    results = [agent.result() for agent in made]
    assert [result["state"] for result in results] == ["FAILED"] * 2
    assert sorted(list(result["failures"].items()) for result in results) == [[], [("1", 9)]]
    agents.await_none()


def test_k_004_02_killed_agent_costs_the_survivor_one_round_and_nothing_of_the_budget(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    victim, survivor = (start(agents, etcd_server, run_id, low=1) for _ in range(2))
    agents.await_running(2)
    victim.signal(signal.SIGKILL)
    assert [worker["RANK"] for worker in agents.await_running(1)] == ["0"]
    agents.finish()
    result = survivor.result()
    assert (result["state"], result["restarts"]) == ("SUCCEEDED", 0)


def sockets(pid: int) -> set[str]:
    """Return the inodes of all sockets that a process has open."""
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(fd.readlink()))
    return {target for target in found if target.startswith("socket:")}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_have_no_socket_of_their_agent_with_any_start_method(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str, method: str
) -> None:
    """With a copy of its link, a dead agent would look alive until its lease ends."""
    agent = start(agents, etcd_server, run_id, low=1, high=1, agent={"start_method": method})
    agents.await_running(1)
    children = psutil.Process(agent.process.pid).children(recursive=True)
    assert len(children) >= 2, "a fork server and a worker"
    assert [child for child in children if sockets(child.pid) & sockets(agent.process.pid)] == []
    agents.finish()
    assert agent.result()["state"] == "SUCCEEDED"


def test_functions_are_not_forked_beside_a_connection_to_etcd(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    agent = start(agents, etcd_server, run_id, low=1, high=1, agent={"start_method": "fork"})
    assert agent.process.wait(scaled(30)) == 1
    assert "start_method 'fork' cannot be used with a rendezvous over etcd" in agent.log.read_text()


def test_k_004_03_an_agent_leaves_at_sigterm_and_another_joins(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    leaver, survivor = (start(agents, etcd_server, run_id, low=1) for _ in range(2))
    agents.await_running(2)
    leaver.signal(signal.SIGTERM)
    assert leaver.result()["sigval"] == signal.SIGTERM
    agents.await_running(1)
    joiner = start(agents, etcd_server, run_id, low=1)
    agents.await_running(2)
    agents.finish()
    assert [agent.result()["state"] for agent in (survivor, joiner)] == ["SUCCEEDED"] * 2


def test_b_004_24_command_missing_on_one_node_fails_the_job_with_that_reason(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str
) -> None:
    good = start(agents, etcd_server, run_id, spec={"max_restarts": 0})
    bad = start(agents, etcd_server, run_id, spec={"max_restarts": 0}, entrypoint="no-such-trainer")
    result = bad.result()
    assert (result["raised"], "no-such-trainer" in result["text"]) == ("FileNotFoundError", True)
    assert good.result()["state"] == "FAILED"
    assert "no-such-trainer" in good.log.read_text()


ROLES = {0: "ps", 1: "trainer"}


def kill_and_replace_one(
    agents: Fleet, server: EmbeddedEtcd, run_id: str, living: dict[int, AgentProcess], draw: random.Random
) -> None:
    """Let one of two agents die or leave, and replace it; check contiguous ranks and that no older worker lives."""
    at = draw.randrange(2)
    stale = [int(w["pid"]) for w in agents.running(0) if w["ROLE_NAME"] == ROLES[1 - at]]
    living[at].signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
    (alone,) = agents.await_running(1)
    assert not any(map(alive, stale)), "the survivor has started a worker before the end of one of the last round"
    living[at] = start(agents, server, run_id, low=1, role=ROLES[at])
    workers = agents.await_running(2)
    assert not alive(int(alone["pid"]))
    assert [worker["RANK"] for worker in workers] == ["0", "1"]
    assert {worker["ROLE_NAME"]: worker["ROLE_RANK"] for worker in workers} == {"ps": "0", "trainer": "0"}
    eventually(lambda: len(agents.running(0)) == 2, within_s=WITHIN_S, what="no worker of an older round")


@pytest.mark.parametrize(
    "seconds", [0, pytest.param(60, marks=(pytest.mark.nightly, pytest.mark.timeout(600)))], ids=["thrice", "a minute"]
)
def test_b_004_46_agents_that_are_killed_and_come_back_never_leave_a_stale_worker(
    agents: Fleet, etcd_server: EmbeddedEtcd, run_id: str, seconds: float
) -> None:
    draw, until_s = random.Random(46), time.monotonic() + seconds
    living = {at: start(agents, etcd_server, run_id, low=1, role=role) for at, role in ROLES.items()}
    agents.await_running(2)
    for count in itertools.count():
        if count >= 3 and time.monotonic() >= until_s:
            break
        kill_and_replace_one(agents, etcd_server, run_id, living, draw)
    agents.finish()
    assert [agent.result()["state"] for agent in living.values()] == ["SUCCEEDED"] * 2
