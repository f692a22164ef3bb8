"""The cost of failures: one restart for simultaneous ones, none for a port in use, a delay before any progress."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import FailureRule
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.scripted_fleet import scripted_fleet
from testing.waiting import eventually

pytestmark = pytest.mark.etcd

BINDS = """
import os, socket, sys, time
folder, round_ = sys.argv[1], os.environ["ELASTICJOB_ROUND"]
port = os.environ["MASTER_PORT"]
open(f"{folder}/.{round_}", "w").write(port)
os.rename(f"{folder}/.{round_}", f"{folder}/port.{round_}")
while not os.path.exists(f"{folder}/bind"):
    time.sleep(0.01)
server = socket.create_server(("127.0.0.1", int(port)))
"""


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def test_simultaneous_crashes_on_three_nodes_are_one_restart(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "3", 1) as job:
        job.begin(3)
        job.give_orders(1, {"*": {"exit": 3}})
        job.await_round(2, 3)
        assert job.restarts(2) == {"1"}
        job.all_finish()
        assert job.rounds() == {1, 2}


def test_failures_that_repeat_before_any_progress_are_delayed_and_reported(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 1, max_restarts=2) as job:
        job.start_agent("no-such-command")
        assert job.await_ends(60) == [ExitCode.NOT_FOUND]
        log = job.log_of(0).read_text()
        assert "failure 2 in a row before any progress, the next attempt is 1 s after it" in log
        assert "maxRestarts 2 is used up: 3 failures in a row before any progress" in log.splitlines()[-1]


def test_workers_that_ran_for_seconds_without_a_report_are_restarted_at_once(endpoint: str, tmp_path: Path) -> None:
    """A plain script reports nothing: three deaths by SIGKILL, each four seconds after a start, cause no delay."""
    with scripted_fleet(endpoint, tmp_path, "1", 1, max_restarts=2) as job:
        job.start_agent("sh", "-c", "sleep 4; kill -KILL $$")
        assert job.await_ends(60) == [128 + signal.SIGKILL]
        log = job.log_of(0).read_text()
        assert "maxRestarts 2 is used up" in log.splitlines()[-1]
        assert "in a row before any progress" not in log


SAYS_AND_DIES = """
if [ "$ELASTICJOB_ROUND" -gt 3 ]; then exit 0; fi
if [ "$LOCAL_RANK" = 0 ]; then echo "step 20"; exec sleep 60; fi
sleep 1.2; exit 7
"""


def test_output_of_another_worker_of_the_node_counts_as_progress(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 2) as job:
        job.start_agent("sh", "-c", SAYS_AND_DIES)
        assert job.await_ends(60) == [0], job.log_of(0).read_text()
        assert "in a row before any progress" not in job.log_of(0).read_text()


def test_a_failure_that_a_rule_ignores_is_delayed_when_it_repeats_at_once(endpoint: str, tmp_path: Path) -> None:
    """Nothing is charged, so only the delay keeps this job from a loop."""
    script = 'if [ "$ELASTICJOB_ROUND" -gt 3 ]; then exit 0; fi; exit 7'
    with scripted_fleet(endpoint, tmp_path, "1", 1) as job:
        job.set_replicas(failure_rules=(FailureRule("Ignore", (7,)),), backoff_initial_s=0.1)
        job.start_agent("sh", "-c", script)
        assert job.await_ends(60) == [0], job.log_of(0).read_text()
        assert job.reported(0, "failure 3 in a row before any progress, the next attempt is 0.2 s after it")


@pytest.mark.nightly
def test_workers_with_progress_are_always_restarted_at_once(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 1) as job:
        job.begin(1)
        for round_ in (1, 2, 3):
            job.give_orders(round_, {"0": {"exit": 1}})
            job.await_round(round_ + 1, 1)
            state = job.await_state(RoundPhase.ACTIVE, round_ + 1)
            assert (state.startup_failures, state.restarts) == (0, round_)
        job.all_finish()


@pytest.mark.nightly
def test_old_failures_do_not_count_with_a_restart_window(endpoint: str, tmp_path: Path) -> None:
    """Each run is longer than the window, so three failures do not exceed a budget of one."""
    script = 'sleep 1.2; [ "$ELASTICJOB_ROUND" -gt 3 ]'
    with scripted_fleet(endpoint, tmp_path, "1", 1, max_restarts=1) as job:
        job.set_replicas(restart_window_s=1.0, backoff_initial_s=0.0)
        job.start_agent("sh", "-c", script)
        assert job.await_ends(60) == [0], job.log_of(0).read_text()


def test_young_failures_count_with_a_restart_window(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 1, max_restarts=1) as job:
        job.set_replicas(restart_window_s=600.0, backoff_initial_s=0.0)
        job.start_agent("sh", "-c", "exit 7")
        assert job.await_ends(60) == [7]
        last = job.log_of(0).read_text().splitlines()[-1]
        assert "maxRestarts 1 is used up within 600 s: 2 failures in a row before any progress" in last


@contextlib.contextmanager
def taken(port: int) -> Iterator[None]:
    """Listen at MASTER_PORT while inside."""
    with socket.create_server(("127.0.0.1", port)):
        yield


def test_a_master_port_in_use_is_replaced_and_not_charged(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "1", 1, max_restarts=0) as job:
        job.start_agent(sys.executable, "-S", "-c", BINDS, str(tmp_path))
        first, second = tmp_path / "port.1", tmp_path / "port.2"
        eventually(first.exists, within_s=30, what="rank 0 of round 1")
        with taken(int(first.read_text())):
            (tmp_path / "bind").touch()
            eventually(second.exists, within_s=30, what="rank 0 of round 2")
        assert job.await_ends(30) == [0], job.log_of(0).read_text()
        assert first.read_text() != second.read_text()
        assert "; not charged: the next attempt takes another port" in job.log_of(0).read_text()


def test_a_lost_node_is_counted_separately(endpoint: str, tmp_path: Path) -> None:
    with scripted_fleet(endpoint, tmp_path, "2:3", 1, max_restarts=0) as job:
        job.begin(3)
        job.agents[2].kill()
        job.await_round(2, 2)
        state = job.await_state(RoundPhase.ACTIVE, 2)
        assert (state.restarts, state.node_losses, state.cause) == (0, 1, Cause.NODE_LOST)
        job.all_finish(0, 1)
