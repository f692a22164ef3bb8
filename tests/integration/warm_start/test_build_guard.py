"""Pace and memory of a process in the place of a zygote during its imports."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.warm_start.build_guard import MemoryLimitError, PausableProcess, guarded
from testing.waiting import aeventually, eventually

MIB = 1 << 20
NO_LIMIT = 1 << 50
_BUSY = "while True: pass"
_GREEDY = "blocks = []\nwhile True: blocks.append(bytearray(b'x') * (1 << 20))"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(processes: list[subprocess.Popen[bytes]], script: str) -> subprocess.Popen[bytes]:
    processes.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", script]))
    return processes[-1]


def is_stopped(pid: int) -> bool:
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


def was_continued(pid: int) -> bool:
    """Whether this child was stopped, and then continued."""
    return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG) is not None


async def test_the_imports_begin_in_slices(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _BUSY)
    report = asyncio.Event()
    reading = asyncio.create_task(guarded(report.wait, process.pid, limit=NO_LIMIT))
    await aeventually(lambda: was_continued(process.pid))
    report.set()
    assert await reading is True


async def test_a_cancelled_build_is_not_left_stopped(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _BUSY)
    for _ in range(5):
        reading = asyncio.create_task(guarded(asyncio.Event().wait, process.pid, limit=NO_LIMIT))
        await aeventually(lambda: was_continued(process.pid) or is_stopped(process.pid))
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        await aeventually(lambda: not is_stopped(process.pid))


def test_the_end_of_a_handle_continues_its_process(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _BUSY)
    with PausableProcess(process.pid) as handle:
        handle.stop()
        eventually(lambda: is_stopped(process.pid))
    eventually(lambda: not is_stopped(process.pid))


def test_a_handle_never_reaches_another_process(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _BUSY)
    with PausableProcess(process.pid) as handle:
        process.kill()
        process.wait()
        with pytest.raises(ProcessLookupError):
            handle.stop()


async def test_imports_that_take_too_much_memory_are_killed(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _GREEDY)
    with pytest.raises(MemoryLimitError, match="the imports take more than 64 MiB"):
        await guarded(asyncio.Event().wait, process.pid, limit=64 * MIB)
    assert process.wait() == -signal.SIGKILL


def test_the_end_of_a_handle_is_silent_if_it_has_killed_its_process(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, _BUSY)
    with PausableProcess(process.pid) as handle:
        handle.stop()
        handle.kill()
        process.wait()


async def test_the_limit_is_the_reason_although_the_reader_notices_the_kill_first(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(processes, _GREEDY)

    async def lost() -> None:
        await asyncio.get_running_loop().run_in_executor(None, process.wait)
        raise ConnectionResetError

    kill = PausableProcess.kill

    def kill_slowly(self: PausableProcess) -> None:
        kill(self)
        process.wait()

    monkeypatch.setattr(PausableProcess, "kill", kill_slowly)
    with pytest.raises(MemoryLimitError):
        await guarded(lost, process.pid, limit=64 * MIB)


async def test_the_report_of_a_process_that_has_ended_is_still_read(processes: list[subprocess.Popen[bytes]]) -> None:
    process = start(processes, "pass")
    process.wait()

    async def report() -> str:
        await asyncio.sleep(0)
        return "report"

    assert await guarded(report, process.pid, limit=NO_LIMIT) == "report"


async def test_the_error_of_the_report_is_passed_on(processes: list[subprocess.Popen[bytes]]) -> None:
    async def lost() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await guarded(lost, start(processes, _BUSY).pid, limit=NO_LIMIT)
