"""The background loop: one for all callers, a new one in a forked child, and undone work after an interruption."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from elasticjob_agent.supervisor import background


async def _answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_all_callers_share_one() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(background()))
    thread.start()
    thread.join()
    assert found == [background()]
    assert background().run(_answer()) == 42
    assert background().submit(_answer()).result(20) == 42


def test_an_exception_is_raised_by_run() -> None:
    async def fail() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        background().run(fail())


def test_importing_starts_nothing() -> None:
    script = "import threading, elasticjob_agent.supervisor; assert threading.active_count() == 1"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_an_interruption_waits_until_the_work_has_undone_itself() -> None:
    undone = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            undone.append(True)

    class Alarm(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Alarm):
            background().run(work())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert undone == [True]


def test_a_forked_child_creates_its_own() -> None:
    first = background()
    first.run(_answer())
    pid = os.fork()
    if pid == 0:
        good = background() is not first and background().run(_answer()) == 42
        os._exit(0 if good else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert first.run(_answer()) == 42
