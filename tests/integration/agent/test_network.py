"""An agent that is cut off, or stands still, and comes back: before anybody missed it, or fenced off after."""

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
from testing.waiting import eventually

pytestmark = pytest.mark.etcd


@pytest.fixture
def way(etcd_server: EmbeddedEtcd) -> Iterator[Proxy]:
    """The way of one agent to etcd."""
    with proxy("127.0.0.1", etcd_server.port) as made:
        yield made


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def begin_with_one_behind(job: ScriptedFleet, way: Proxy) -> int:
    """Three nodes run round 1; the last one's way to etcd is `way`. Its number."""
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
def test_a_short_cut_is_missed_by_nobody(endpoint: str, way: Proxy, tmp_path: Path, fault: str) -> None:
    with scripted_fleet(endpoint, tmp_path, "3", 1, keep_alive_s=30) as job:
        behind = begin_with_one_behind(job, way)
        another = next(ranks[0] for agent, ranks in job.ranks(1).items() if agent != behind)
        getattr(way, fault)()
        job.give_orders(1, {str(another): {"exit": 1}})
        job.await_world(RoundPhase.FORMING, 2)
        way.restore()
        job.await_round(2, 3)
        assert job.restarts(2) == {"1"}
        assert job.await_world(RoundPhase.ACTIVE, 2).node_losses == 0
        job.all_finish()
        assert job.rounds() == {1, 2}


def gone(job: ScriptedFleet) -> bool:
    return not job.view().nodes


def test_a_lease_that_ran_out_is_taken_anew_if_nobody_moved_on_and_the_workers_never_know(
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


def test_one_that_was_cut_off_too_long_finds_the_job_gone_on_stops_and_joins_anew(
    endpoint: str, way: Proxy, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2:3", 1, max_restarts=0) as job:
        late = begin_with_one_behind(job, way)
        worker = pid_of(job, late, 1)
        way.refuse()
        job.await_round(2, 2)
        assert psutil.pid_exists(worker), "a healthy worker was stopped although nobody told its node to"
        way.restore()
        job.await_round(3, 3)
        assert not psutil.pid_exists(worker)
        world = job.await_world(RoundPhase.ACTIVE, 3)
        assert (world.restarts, world.node_losses) == (0, 1)
        job.all_finish()


def test_one_that_is_cut_off_for_its_isolation_grace_stops_its_workers_and_leaves(
    endpoint: str, way: Proxy, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2:3", 1, max_restarts=0) as job:
        job.set_replicas(isolation_grace_s=3.0)
        isolated = begin_with_one_behind(job, way)
        worker = pid_of(job, isolated, 1)
        way.refuse()
        assert job.agents[isolated].wait(30) == 128 + signal.SIGTERM
        assert not psutil.pid_exists(worker)
        assert job.reported(isolated, "etcd has not answered for isolationGraceSeconds")
        job.await_round(2, 2)
        job.all_finish(*job.ranks(2))
        assert job.restarts(2) == {"0"}


def test_an_agent_that_stood_still_until_it_was_replaced_is_fenced_off_and_waits_as_a_spare(
    endpoint: str, tmp_path: Path
) -> None:
    with scripted_fleet(endpoint, tmp_path, "2", 1, max_restarts=0) as job:
        job.begin(2)
        still = job.agent_of(1)
        worker = pid_of(job, still, 1)
        os.kill(job.agents[still].pid, signal.SIGSTOP)
        job.await_world(RoundPhase.FORMING, 2)
        replacement = job.run_scripted()
        job.await_round(2, 2)
        assert job.ranks(2) == {1 - still: [0], replacement: [1]}
        os.kill(job.agents[still].pid, signal.SIGCONT)
        job.await_silence({worker})
        job.await_reported(still, "joined as slot 2")
        job.all_finish()
        assert job.rounds() == {1, 2}
        assert job.restarts(2) == {"0"}


@pytest.mark.parametrize(
    ("outcome", "closer"),
    [
        ("left_behind", "here"),
        ("missed_by_nobody", "there"),
        pytest.param("left_behind", "there", marks=pytest.mark.nightly),
        pytest.param("missed_by_nobody", "here", marks=pytest.mark.nightly),
    ],
)
def test_a_machine_whose_cable_is_pulled(tmp_path: Path, outcome: str, closer: str) -> None:
    run_in_own_network("tests.integration.agent.cut_machine", str(tmp_path), outcome, closer, within_s=110)
