"""The agent as PID 1 of a container: orphans are reaped, signals arrive, and the container ends with the agent."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elasticjob_agent import container_init
from testing.waiting import eventually, scaled

pytestmark = pytest.mark.etcd

UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
SLEEPER = "import os, sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(100)"


def may_unshare() -> bool:
    """Whether a PID namespace can be created here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not may_unshare(), reason="no PID namespace can be created here")


class Container:
    """An agent with one worker that is PID 1 of its namespace."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.log = folder / "log"
        agent = [sys.executable, "-m", "elasticjob_agent.cli.main", "--no-python", *command]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*UNSHARE, *agent], stdout=log, stderr=log, start_new_session=True)

    def first(self) -> psutil.Process:
        """Return PID 1 by its pid outside of the namespace."""
        (process,) = psutil.Process(self.process.pid).children()
        return process

    def zombies(self) -> list[psutil.Process]:
        return [p for p in self.first().children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]


@pytest.fixture
def containers() -> Iterator[list[Container]]:
    started: list[Container] = []
    yield started
    for container in started:
        if container.process.poll() is None:
            container.process.kill()
            container.process.wait()


@needs_namespaces
def test_an_orphan_is_reaped(containers: list[Container], tmp_path: Path) -> None:
    container = Container(tmp_path, sys.executable, "-c", SLEEPER, str(tmp_path / "up"))
    containers.append(container)
    eventually((tmp_path / "up").exists, within_s=30, what="the worker")
    orphan = ["nsenter", "--user", "--preserve-credentials", "--pid", "--target", str(container.first().pid)]
    marker = "4242.4242"
    # Started from outside, as kubectl exec does. Its child becomes an orphan when its parent has ended.
    subprocess.run([*orphan, "sh", "-c", f"sleep {marker} & :"], check=True)
    found = eventually(lambda: [p for p in psutil.process_iter() if _runs(p, marker)], within_s=20, what="the orphan")
    assert found[0].ppid() == container.first().pid
    found[0].kill()
    eventually(lambda: not psutil.pid_exists(found[0].pid), within_s=20, what="the orphan reaped")
    assert container.zombies() == []


def _runs(process: psutil.Process, marker: str) -> bool:
    try:
        return process.cmdline() == ["sleep", marker]
    except psutil.Error:
        return False


@needs_namespaces
def test_sigterm_reaches_the_agent_once_and_its_exit_code_is_the_containers(
    containers: list[Container], tmp_path: Path
) -> None:
    container = Container(tmp_path, sys.executable, "-c", SLEEPER, str(tmp_path / "up"))
    containers.append(container)
    eventually((tmp_path / "up").exists, within_s=30, what="the worker")
    container.first().send_signal(signal.SIGTERM)
    assert container.process.wait(scaled(30)) == 128 + signal.SIGTERM
    assert container.log.read_text().count("got SIGTERM") == 1


@needs_namespaces
@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -SEGV $$", 128 + signal.SIGSEGV)])
def test_the_exit_code_of_the_worker_is_the_containers(
    script: str, code: int, containers: list[Container], tmp_path: Path
) -> None:
    container = Container(tmp_path, "sh", "-c", script)
    containers.append(container)
    assert container.process.wait(scaled(30)) == code, container.log.read_text()


def exit_code_of_init(action: str) -> int:
    """Return the exit code of an init whose agent executes `action`."""
    begin = "import os, signal, sys\nfrom elasticjob_agent import container_init\ncontainer_init.fork_as_init_child()\n"
    script = begin + action
    return subprocess.run([sys.executable, "-c", script], timeout=scaled(30), check=False).returncode


@pytest.mark.parametrize(
    ("action", "code"),
    [("sys.exit(5)", 5), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL), ("pass", 0)],
)
def test_an_init_ends_as_its_agent_ends(action: str, code: int) -> None:
    assert exit_code_of_init(action) == code


def test_a_process_that_is_not_pid_1_does_not_fork() -> None:
    before = os.getpid()
    container_init.run_as_init_if_pid1()
    assert os.getpid() == before
