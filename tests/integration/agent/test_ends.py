"""The end of agents: the exit code is the root cause's, the last line names worker and reason, nothing remains."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import fleet
from testing.waiting import scaled

pytestmark = pytest.mark.etcd


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def test_spent_budget_ends_the_owner_with_the_workers_code_and_the_others_with_the_tables(
    endpoint: str, tmp_path: Path
) -> None:
    with fleet(endpoint, tmp_path, "2", 1, max_restarts=0) as job:
        job.start_agents(2)
        owner = next(agent for agent, ranks in job.ranks(1).items() if ranks == [1])
        job.fail(1, code=7)
        codes = job.await_ends()
        assert codes[owner] == 7
        assert codes[1 - owner] == ExitCode.PEER_FAILED
        log = job.log_of(1 - owner).read_text()
        assert "rank 1 on" in log
        assert log.count("exited with code 7; maxRestarts 0 is used up") == 1
        assert "exited with code 7; maxRestarts 0 is used up (exit code 120)" in log.splitlines()[-1]


def test_signal_of_the_root_cause_becomes_128_plus_number(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "1", 1, max_restarts=0) as job:
        job.start_agent("sh", "-c", "kill -SEGV $$")
        assert job.await_ends() == [128 + signal.SIGSEGV]
        assert "was killed by SIGSEGV" in job.log_of(0).read_text()


def test_missing_command_is_named_with_its_path_and_exits_127(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "1", 2, max_restarts=1) as job:
        job.start_agent("no-such-command", "--x")
        assert job.await_ends() == [ExitCode.NOT_FOUND]
        log = job.log_of(0).read_text()
        assert "no-such-command" in log
        assert "PATH" in log


def test_script_that_raises_at_import_shows_the_exception_in_the_last_sentence(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "1", 1, max_restarts=0) as job:
        job.start_agent(sys.executable, "-c", "import no_such_module")
        assert job.await_ends() == [1]
        last = job.log_of(0).read_text().splitlines()[-1]
        assert "ModuleNotFoundError: No module named 'no_such_module'" in last


def test_unreachable_etcd_is_one_sentence_within_the_join_timeout(tmp_path: Path) -> None:
    with fleet("127.0.0.1:1", tmp_path, "1", 1, conf="join_timeout=1") as job:
        job.start_agent()
        assert job.await_ends() == [ExitCode.UNAVAILABLE]
        assert "etcd did not answer within 1 s" in job.log_of(0).read_text()


def test_too_few_nodes_within_the_join_timeout_fail_the_job_naming_the_count(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2", 1, conf="join_timeout=1") as job:
        job.start_agent()
        assert job.await_ends() == [ExitCode.JOIN_TIMEOUT]
        assert "fewer than 2 nodes within 1 s" in job.log_of(0).read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nnodes", "3:2", "x.py"], "--nnodes 3:2"),
        (["--nproc-per-node", "many", "--standalone", "x.py"], "--nproc-per-node many"),
        (["--rdzv-backend", "zeus", "x.py"], "--rdzv-backend zeus"),
        (["--rdzv-backend", "etcd", "x.py"], "--rdzv-endpoint is missing"),
        (["--standalone"], "the script is missing"),
        (["--pod", "x"], "ELASTICJOB_PREFIX is not set"),
    ],
)
def test_wrong_command_line_is_one_sentence_and_exit_2(options: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "elasticjob_agent.cli.main", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaled(30), check=False)
    assert done.returncode == ExitCode.USAGE
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_standalone_needs_no_endpoint_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elasticjob_agent.cli.main", "--standalone", "--no-python", "true"]
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=scaled(30), check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
