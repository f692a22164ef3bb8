"""Ends of an agent: signals while its workers run, SIGKILL, a second signal; as a process of its own."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testing.waiting import eventually, scaled
from tests.integration.server.fleet import ROOT, WITHIN_S, Fleet, fleet


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


def test_b_004_28_workers_that_handle_sigterm_may_save_their_work(agents: Fleet) -> None:
    agent = agents.start("careful", nproc=2)
    agents.await_running(2)
    agent.signal(signal.SIGTERM)
    assert agent.result() == {
        "raised": "SignalException",
        "text": f"Process {agent.process.pid} got signal: 15",
        "sigval": signal.SIGTERM,
    }
    assert sorted(path.name for path in agents.reports.glob("saved.*")) == ["saved.0", "saved.1"]
    agents.await_none()


def test_b_004_28_worker_that_ignores_sigterm_is_killed_after_the_shutdown_time_out(agents: Fleet) -> None:
    agent = agents.start("stubborn", agent={"shutdown_timeout": 0.3})
    agents.await_running(1)
    agent.signal(signal.SIGTERM)
    assert agent.result()["sigval"] == signal.SIGTERM
    agents.await_none()


def test_b_004_29_a_signal_while_a_failed_workers_sibling_stops_slowly_leaves_no_worker(agents: Fleet) -> None:
    agent = agents.start("first_fails_and_the_other_stops_slowly", nproc=2, spec={"max_restarts": 3})
    eventually(lambda: "stopping the worker group" in agent.log.read_text(), within_s=WITHIN_S, what="the stop")
    agent.signal(signal.SIGTERM)
    assert agent.result()["sigval"] == signal.SIGTERM
    assert list(agents.reports.glob("1.*")) == []
    agents.await_none()


def test_b_004_34_second_signal_kills_at_once(agents: Fleet) -> None:
    agent = agents.start("stubborn", agent={"shutdown_timeout": 3600})
    agents.await_running(1)
    agent.signal(signal.SIGTERM)
    eventually(lambda: "the agent ends" in agent.log.read_text(), within_s=WITHIN_S, what="shutdown")
    agent.signal(signal.SIGINT)
    assert agent.result()["sigval"] == signal.SIGTERM
    agents.await_none()


def test_b_004_35_workers_end_with_an_agent_killed_by_sigkill(agents: Fleet) -> None:
    agent = agents.start("stubborn", nproc=2)
    agents.await_running(2)
    agent.signal(signal.SIGKILL)
    agents.await_none()


UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")


def may_unshare() -> bool:
    """Return whether a PID namespace can be created here."""
    return bool(shutil.which("unshare")) and not subprocess.run([*UNSHARE, "true"], check=False).returncode


@pytest.mark.skipif(not may_unshare(), reason="no PID namespace can be created here")
def test_b_004_35_agent_that_is_pid_1_is_ended_by_a_signal_and_reaps_orphans(agents: Fleet) -> None:
    agent = agents.start("orphans", before=UNSHARE)
    eventually(lambda: list(agents.reports.glob("0.0.*")), within_s=WITHIN_S, what="a worker")
    (first,) = psutil.Process(agent.process.pid).children()
    eventually(
        lambda: not [p for p in first.children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE],
        within_s=WITHIN_S,
        what="no zombies",
    )
    first.send_signal(signal.SIGTERM)
    assert agent.result()["text"] == "Process 1 got signal: 15"


def test_k_004_14_command_line_ends_with_the_code_of_the_root_cause() -> None:
    command = [sys.executable, "-m", "elasticjob_agent.cli.main", "--standalone", "--no-python", "sh", "-c", "exit 37"]
    assert subprocess.run(command, cwd=ROOT, timeout=scaled(60), capture_output=True, check=False).returncode == 37
