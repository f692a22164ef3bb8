"""Planned changes give workers their signal and the full grace; a failure gives the others the short grace."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.waiting import scaled

pytestmark = pytest.mark.etcd

SAVES = ("--progress", "--save", "SIGUSR1")


@pytest.fixture
def job(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[ScriptedFleet]:
    """A job with two to three nodes whose workers save on SIGUSR1 until the test releases them."""
    with scripted_fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, options=SAVES) as made:
        made.set_replicas(stop_signal="SIGUSR1", graceful_shutdown_s=60.0, failure_grace_s=0.2)
        yield made


def all_save(job: ScriptedFleet, workers: int) -> None:
    """Check that all workers get the signal, and that the next round begins only after all have saved."""
    job.await_point("told", 1, workers)
    assert job.rounds() == {1}
    job.start_rounds()
    job.await_point("saved", 1, workers)


def test_workers_save_when_a_node_joins(job: ScriptedFleet) -> None:
    job.set_replicas(desired=2)
    job.begin(2)
    job.set_replicas(desired=3)
    job.run_scripted()
    all_save(job, 2)
    job.await_round(2, 3)
    assert job.await_state(RoundPhase.ACTIVE, 2).cause is Cause.NODE_JOINED


def test_workers_save_when_the_job_shrinks(job: ScriptedFleet) -> None:
    job.begin(3)
    job.set_replicas(desired=2)
    all_save(job, 3)
    job.await_round(2, 2)
    assert job.await_state(RoundPhase.ACTIVE, 2).cause is Cause.SCALED_DOWN


def test_workers_save_when_a_node_is_preempted(job: ScriptedFleet) -> None:
    job.begin(3)
    job.agents[1].send_signal(signal.SIGTERM)
    all_save(job, 3)
    job.await_round(2, 2)
    assert job.agents[1].wait(scaled(30)) == 128 + signal.SIGTERM
    assert job.await_state(RoundPhase.ACTIVE, 2).restarts == 0


def test_after_a_failure_saving_workers_get_only_the_short_grace(job: ScriptedFleet) -> None:
    job.begin(3)
    job.give_orders(1, {"0": {"exit": 1}})
    job.await_round(2, 3)
    assert job.workers("saved", 1) == []
    assert job.restarts(2) == {"1"}
