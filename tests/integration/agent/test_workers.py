"""The group of one node's workers over a real supervisor: the record of a worker that ends during the stop."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.workers.node_workers import NodeWorkers
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import SpecRecord, WorkerFailure
from elasticjob_api.runtime_config import runtime_config_of
from testing.waiting import aeventually
from testing.worker_group import ONE_WORKER, node_workers

CONFIG = runtime_config_of(SpecRecord(min=1, max=1, desired=1))
READY = "open(os.environ['READY'], 'w').close(); time.sleep(600)"
Make = Callable[..., NodeWorkers]


@pytest.fixture
async def progress(tmp_path: Path) -> AsyncIterator[ProgressFifo]:
    """The FIFO of the node's workers."""
    made = ProgressFifo(tmp_path / "progress")
    yield made
    made.close()


@pytest.fixture
async def make(tmp_path: Path, progress: ProgressFifo) -> AsyncIterator[Make]:
    """`make(script)` returns a group whose workers run this Python script; the supervisor is closed at the end."""
    supervisor = await Supervisor.create()

    def made(script: str) -> NodeWorkers:
        command = (sys.executable, "-S", "-c", f"import os, signal, sys, time\n{script}")
        environment = {"READY": str(tmp_path / "ready")}
        return node_workers(
            supervisor, progress, *command, log_dir=tmp_path, counter_dir=tmp_path, environment=environment
        )

    yield made
    await supervisor.close()


async def started(workers: NodeWorkers, folder: Path, nproc: int = 1) -> None:
    await workers.start(replace(ONE_WORKER, nproc=nproc), CONFIG)
    await aeventually((folder / "ready").exists, within_s=30, what="the worker")


async def stopped(workers: NodeWorkers, grace_s: float = 20.0, signal_name: str = "SIGTERM") -> list[WorkerFailure]:
    workers.stop(grace_s=grace_s, signal_name=signal_name)
    await aeventually(lambda: workers.phase is Workers.NONE, within_s=30, what="their end")
    return list(workers.failures.values())


async def test_a_worker_that_ends_of_our_signal_has_no_failure(make: Make, tmp_path: Path) -> None:
    workers = make(READY)
    await started(workers, tmp_path)
    assert await stopped(workers) == []


async def test_a_worker_that_exits_badly_on_our_signal_has_no_failure(make: Make, tmp_path: Path) -> None:
    workers = make(f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); {READY}")
    await started(workers, tmp_path)
    assert await stopped(workers) == []


async def test_a_crash_during_the_stop_is_recorded(make: Make, tmp_path: Path) -> None:
    crash = "os.kill(os.getpid(), signal.SIGSEGV)"
    workers = make(f"signal.signal(signal.SIGTERM, lambda *_: {crash}); {READY}")
    await started(workers, tmp_path)
    (failure,) = await stopped(workers)
    assert (failure.signal, failure.exit_code, failure.stopped_by_agent) == ("SIGSEGV", -signal.SIGSEGV, True)


async def test_an_error_that_was_reported_before_our_signal_is_recorded(make: Make, tmp_path: Path) -> None:
    report = "open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('{\"message\": \"boom\"}')"
    workers = make(f"{report}; {READY}")
    await started(workers, tmp_path)
    (failure,) = await stopped(workers)
    assert (failure.message, failure.stopped_by_agent) == ("boom", True)


async def test_an_exception_of_a_worker_that_our_signal_then_ends_is_recorded(make: Make, tmp_path: Path) -> None:
    slow_to_leave = (
        f"import threading; threading.Thread(target=lambda: (threading.main_thread().join(), exec({READY!r}))).start()"
    )
    workers = make(f"{slow_to_leave}\nopen('/no/such/folder/checkpoint.pt')")
    await started(workers, tmp_path)
    (failure,) = await stopped(workers)
    assert (failure.exit_code, failure.stopped_by_agent) == (-signal.SIGTERM, True)
    assert failure.message.startswith("FileNotFoundError: [Errno 2] No such file or directory: '/no/such/folder/")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
async def test_pythons_reaction_to_our_signal_is_no_failure(make: Make, tmp_path: Path, name: str) -> None:
    workers = make(READY)
    await started(workers, tmp_path)
    assert await stopped(workers, signal_name=name) == []


async def test_a_failure_keeps_the_end_of_stderr(make: Make) -> None:
    workers = make("sys.stderr.write('x' * 9000 + '\\nValueError: boom\\n'); sys.exit(3)")
    await workers.start(ONE_WORKER, CONFIG)
    await aeventually(lambda: workers.phase is Workers.FAILED, within_s=30, what="its failure")
    [failure] = workers.failures.values()
    assert (failure.exit_code, failure.message) == (3, "ValueError: boom")
    assert failure.stderr.endswith("xxx\nValueError: boom")
    assert len(failure.stderr) <= 4096
    assert await stopped(workers) == [failure]


@pytest.mark.parametrize("kills", [0, 1])
async def test_an_out_of_memory_kill_is_recorded(make: Make, tmp_path: Path, kills: int) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 0\n")
    workers = make(READY)
    await started(workers, tmp_path)
    counter.write_text(f"oom_kill {kills}\n")
    os.kill(workers.reports()[0].pid, signal.SIGKILL)
    await aeventually(lambda: workers.phase is Workers.FAILED, within_s=30, what="its failure")
    [failure] = workers.failures.values()
    assert (failure.signal, failure.oom) == ("SIGKILL", kills == 1)
    await stopped(workers)


async def test_a_stop_before_the_start_is_complete_stops_all_workers(make: Make) -> None:
    workers = make(READY)
    await workers.start(ONE_WORKER, CONFIG)
    assert await stopped(workers) == []
    assert [report.exit_code for report in workers.reports()] == [-signal.SIGTERM]


async def test_an_internal_error_is_raised_to_the_caller(make: Make, progress: ProgressFifo) -> None:
    workers = make("sys.exit(1)")
    await workers.start(ONE_WORKER, CONFIG)
    del progress.last

    def raised() -> bool:
        try:
            return workers.phase is None
        except AttributeError:
            return True

    await aeventually(raised, within_s=30, what="the error")
