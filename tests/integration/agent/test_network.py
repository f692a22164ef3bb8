"""An agent that is cut off or suspended and comes back: in time without a loss, or later and fenced off."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.network.netns import run_in_own_network
from testing.network.proxy import Proxy, proxy
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.waiting import eventually, scaled

pytestmark = pytest.mark.etcd


@pytest.fixture
def way(etcd_server: EmbeddedEtcd) -> Iterator[Proxy]:
    """The proxy between one agent and etcd."""
    with proxy("127.0.0.1", etcd_server.port) as made:
        yield made


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def begin_with_one_behind(job: ScriptedFleet, way: Proxy) -> int:
    """Start three nodes in round 1; the last one reaches etcd through `way`. Return its number."""
    job.set_replicas(min=3, max=3, desired=3)
    job.run_scripted()
    job.run_scripted()
    agent = job.run_scripted(way=way.endpoint)
    job.await_round(1, 3)
    job.set_replicas(min=2)
    return agent


def pid_of(job: ScriptedFleet, agent: int, round_: int) -> int:
    return next(int(p["pid"]) for p in job.running(round_) if p["of"] == agent)


@pytest.mark.parametrize(
    "fault",
    ["cut", pytest.param("refuse", marks=pytest.mark.nightly), pytest.param("stall", marks=pytest.mark.nightly)],
)
def test_a_short_cut_loses_no_node(endpoint: str, way: Proxy, tmp_path: Path, fault: str) -> None:
    with scripted_fleet(endpoint, tmp_path, "3", 1, keep_alive_s=30) as job:
        behind = begin_with_one_behind(job, way)
        another = next(ranks[0] for agent, ranks in job.ranks(1).items() if agent != behind)
        getattr(way, fault)()
        job.give_orders(1, {str(another): {"exit": 1}})
        job.await_state(RoundPhase.FORMING, 2)
        way.restore()
        job.await_round(2, 3)
        assert job.restarts(2) == {"1"}
        assert job.await_state(RoundPhase.ACTIVE, 2).node_losses == 0
        job.all_finish()
        assert job.rounds() == {1, 2}


def gone(job: ScriptedFleet) -> bool:
    return not job.view().nodes


def test_an_expired_lease_is_replaced_without_a_round_if_the_job_has_not_moved_on(
    endpoint: str, way: Proxy, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 2) as job:
        agent = job.run_scripted(way=way.endpoint)
        job.await_round(1, 2)
        way.refuse()
        eventually(lambda: gone(job), within_s=30, what="the end of its lease", pause_s=0.05)
        way.restore()
        job.await_reported(agent, "rejoined under a new lease; the workers were not touched")
        job.all_finish()
        assert job.rounds() == {1}
        assert len(job.pids(1)) == 2


def test_a_node_that_was_cut_off_too_long_stops_its_workers_and_joins_again(
    endpoint: str, way: Proxy, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2:3", 1, max_restarts=0) as job:
        late = begin_with_one_behind(job, way)
        worker = pid_of(job, late, 1)
        way.refuse()
        job.await_round(2, 2)
        assert psutil.pid_exists(worker), "a healthy worker was stopped without an order"
        way.restore()
        job.await_round(3, 3)
        assert not psutil.pid_exists(worker)
        state = job.await_state(RoundPhase.ACTIVE, 3)
        assert (state.restarts, state.node_losses) == (0, 1)
        job.all_finish()


def test_a_node_that_is_cut_off_for_its_isolation_grace_stops_its_workers_and_leaves(
    endpoint: str, way: Proxy, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2:3", 1, max_restarts=0) as job:
        job.set_replicas(isolation_grace_s=3.0)
        isolated = begin_with_one_behind(job, way)
        worker = pid_of(job, isolated, 1)
        way.refuse()
        assert job.agents[isolated].wait(scaled(30)) == 128 + signal.SIGTERM
        assert not psutil.pid_exists(worker)
        assert job.reported(isolated, "etcd has not answered for isolationGraceSeconds")
        job.await_round(2, 2)
        job.all_finish(*job.ranks(2))
        assert job.restarts(2) == {"0"}


def test_an_agent_that_was_suspended_until_its_replacement_is_fenced_off_and_waits_as_a_spare(
    endpoint: str, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2", 1, max_restarts=0) as job:
        job.begin(2)
        suspended = job.agent_of(1)
        worker = pid_of(job, suspended, 1)
        os.kill(job.agents[suspended].pid, signal.SIGSTOP)
        job.await_state(RoundPhase.FORMING, 2)
        replacement = job.run_scripted()
        job.await_round(2, 2)
        assert job.ranks(2) == {1 - suspended: [0], replacement: [1]}
        os.kill(job.agents[suspended].pid, signal.SIGCONT)
        job.await_silence({worker})
        job.await_reported(suspended, "joined as slot 2")
        job.all_finish()
        assert job.rounds() == {1, 2}
        assert job.restarts(2) == {"0"}


@pytest.mark.parametrize(
    ("outcome", "leader"),
    [
        ("left_behind", "here"),
        ("back_in_time", "there"),
        pytest.param("left_behind", "there", marks=pytest.mark.nightly),
        pytest.param("back_in_time", "here", marks=pytest.mark.nightly),
    ],
)
def test_a_machine_without_network_comes_back(tmp_path: Path, outcome: str, leader: str) -> None:
    run_in_own_network("tests.integration.agent.cut_machine", str(tmp_path), outcome, leader, within_s=110)
