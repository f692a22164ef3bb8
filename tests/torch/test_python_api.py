"""Our Python API with torch's own rendezvous handlers, errors and tensors."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.launch import free_port
from testing.waiting import scaled
from tests.torch.nodes import python_path

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).with_name("programs.py")
LIMIT_S = 240.0
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(torch_python: Path, tmp_path: Path) -> Iterator[Run]:
    """A function that starts a program of programs.py in the Python with torch."""
    path = python_path(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(tmp_path)}
    started = []

    def start(*words: str) -> "subprocess.Popen[str]":
        command = [str(torch_python), str(PROGRAMS), *words]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def output_of(process: "subprocess.Popen[str]") -> str:
    output, errors = process.communicate(timeout=scaled(LIMIT_S))
    assert process.returncode == 0, errors
    return output.strip()


def test_agents_join_over_torchs_own_rendezvous_and_workers_use_its_store(run: Run) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    agents = [run("run_over_c10d", endpoint, is_host) for is_host in ("true", "false")]
    assert [output_of(agent) for agent in agents] == ["SUCCEEDED [3.0]"] * 2


def test_an_agent_that_torchs_rendezvous_refuses_has_not_failed(run: Run) -> None:
    assert output_of(run("leave")) == "STOPPED"


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_function_may_return_tensors(run: Run, method: str) -> None:
    assert output_of(run("return_tensors", method)) == "{} [1.0, 1000000.0]"
