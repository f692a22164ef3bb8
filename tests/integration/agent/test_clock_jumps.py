"""The wall clock of real agents jumps by hours, forth and back, at every stage: no node is lost, nothing is charged.

Leases, time-outs and back-offs are measured with clocks that do not jump. While a clock is wrong the spec changes, so
that the leader plans at that time: it would read no clock otherwise.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.clocks.jumping_wall_clock import JumpingWallClock
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.waiting import eventually

pytestmark = pytest.mark.etcd

KEEP_ALIVE_S = 2.0
DAYS = 240.0
LOST = "lost the lease of this session"


@pytest.fixture
def clock(tmp_path: Path) -> JumpingWallClock:
    """A clock that several agents can share."""
    folder = tmp_path / "clock"
    folder.mkdir()
    return JumpingWallClock(folder)


@pytest.fixture
def job(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[ScriptedFleet]:
    """A job with two nodes of one worker."""
    with scripted_fleet(etcd_server.endpoint.targets[0], tmp_path, "2", 1, keep_alive_s=KEEP_ALIVE_S) as made:
        yield made


def outlive_a_lease() -> None:
    """Wait for 1.5 times the life of a lease: a lease that is not refreshed ends in that time."""
    until_s = time.monotonic() + 1.5 * KEEP_ALIVE_S
    eventually(lambda: time.monotonic() > until_s, within_s=30, what="a lease's time", pause_s=0.1)


def test_the_clock_of_a_process_does_jump(clock: JumpingWallClock) -> None:
    def read() -> float:
        code = "import time; print(time.time() - time.monotonic())"
        done = subprocess.run([sys.executable, "-c", code], env=clock.environment, capture_output=True, check=True)
        return float(done.stdout)

    before = read()
    clock.jump_to(-3)
    assert read() == pytest.approx(before - 3 * 3600, abs=600)


@pytest.mark.parametrize("hours", [5, pytest.param(-5, marks=pytest.mark.nightly)])
def test_a_jump_while_a_round_runs_loses_no_node(job: ScriptedFleet, clock: JumpingWallClock, hours: float) -> None:
    job.run_scripted()
    job.environment = clock.environment
    job.run_scripted()
    job.await_round(1, 2)
    pids = job.pids(1)
    clock.jump_to(hours)
    outlive_a_lease()
    clock.jump_to(-hours)
    outlive_a_lease()
    assert (job.rounds(), job.pids(1)) == ({1}, pids)
    assert not any(job.reported(agent, LOST) for agent in range(2))
    job.give_orders(1, {"1": {"exit": 1}})
    job.await_round(2, 2)
    assert (job.restarts(2), job.await_state(RoundPhase.ACTIVE, 2).node_losses) == ({"1"}, 0)
    job.all_finish()
    assert job.rounds() == {1, 2}


def test_a_jump_while_the_first_round_forms_ends_no_wait(job: ScriptedFleet, clock: JumpingWallClock) -> None:
    job.environment = clock.environment
    job.run_scripted()
    job.await_state(RoundPhase.FORMING, 1)
    clock.jump_to(DAYS)
    job.set_replicas(max_restarts=7)
    outlive_a_lease()
    clock.jump_to(-DAYS)
    job.run_scripted()
    job.await_round(1, 2)
    job.all_finish()
    assert job.rounds() == {1}


def test_a_jump_while_workers_save_evicts_no_node(
    etcd_server: EmbeddedEtcd, clock: JumpingWallClock, tmp_path: Path
) -> None:
    options = ("--progress", "--save", "SIGTERM")
    endpoint = etcd_server.endpoint.targets[0]
    with scripted_fleet(endpoint, tmp_path, "2", 1, max_restarts=0, keep_alive_s=KEEP_ALIVE_S, options=options) as job:
        job.set_replicas(graceful_shutdown_s=60.0)
        job.environment = clock.environment
        job.begin(2)
        job.set_replicas(restart_id="another")
        job.await_point("told", 1, 2)
        clock.jump_to(DAYS)
        job.set_replicas(max_restarts=7)
        outlive_a_lease()
        clock.jump_to(-DAYS)
        job.start_rounds()
        job.await_round(2, 2)
        assert (job.view().tombstones, job.await_state(RoundPhase.ACTIVE, 2).node_losses) == ({}, 0)
        job.all_finish()
