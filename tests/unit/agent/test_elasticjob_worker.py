"""The helper for training scripts: the agent understands its messages, and without an agent it does nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent import worker
from elasticjob_agent.user_python.worker import elasticjob_worker
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_agent.workers.stack_signals import StackSignal
from elasticjob_api.records import Progress
from testing.pythons import SUPPORTED, need_python
from testing.waiting import aeventually

FILE = Path(str(elasticjob_worker.__file__))


@pytest.fixture
async def fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProgressFifo]:
    """The agent's end of the FIFO."""
    made = ProgressFifo(tmp_path / "progress")
    monkeypatch.setenv(elasticjob_worker.PROGRESS, str(made.path))
    yield made
    made.close()


async def test_progress_and_metrics_arrive(fifo: ProgressFifo) -> None:
    assert worker.report(step=3, total=10, loss=0.123456789, phase="warm-up")
    await aeventually(lambda: fifo.last, what="progress")
    assert fifo.last == Progress(step=3, total=10, metrics={"loss": "0.123457", "phase": "warm-up"})


async def test_a_heartbeat_is_a_sign_of_life_and_changes_no_progress(fifo: ProgressFifo) -> None:
    worker.report(step=3)
    worker.heartbeat()
    await aeventually(lambda: fifo.messages == 2, what="both")
    assert fifo.last == Progress(step=3)


async def test_a_process_registers_for_stacks_until_the_round_is_over(fifo: ProgressFifo) -> None:
    assert worker.dump_stacks_on_request(signal.SIGUSR2)
    await aeventually(lambda: fifo.stack_signals.get(os.getpid()), what="the registration")
    assert (fifo.stack_signals.get(os.getpid()), fifo.messages) == (StackSignal(signal.SIGUSR2), 0)
    fifo.forget()
    assert fifo.stack_signals.get(os.getpid()) is None


def test_without_an_agent_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(elasticjob_worker.PROGRESS, raising=False)
    assert (worker.report(step=1), worker.heartbeat()) == (False, False)
    monkeypatch.setenv(elasticjob_worker.PROGRESS, str(tmp_path / "no such fifo"))
    assert worker.report(step=1) is False


@pytest.mark.usefixtures("fifo")
async def test_an_agent_that_does_not_read_blocks_no_worker() -> None:
    while worker.report(step=1):  # the event loop does not run meanwhile, so the FIFO fills up
        pass
    assert worker.report(step=2) is False


async def test_a_report_too_long_for_one_piece_is_not_sent(fifo: ProgressFifo) -> None:
    metrics: dict[str, Any] = {f"metric{n}": "x" * 100 for n in range(100)}
    assert worker.report(step=1, **metrics) is False
    assert fifo.messages == 0


FORK = """
import os, signal
import elasticjob_worker as worker
with worker._state.lock:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        worker.heartbeat()
        os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_process_that_is_forked_while_a_thread_reports_does_not_hang() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], cwd=FILE.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


STOP = """
import os, signal
import elasticjob_worker as worker
worker.catch_stop()
before = worker.stop_requested()
os.kill(os.getpid(), signal.SIGTERM)
while not worker.stop_requested():
    pass
print(before, worker.stop_requested(), worker.seconds_since_stop() >= 0, worker.report(step=1))
"""


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_file_alone_works_in_each_python_and_catches_the_stop(version: str, tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(FILE.read_bytes())
    command = [need_python(version), "-c", STOP]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("False True True False\n", "")
