"""Processes that get no processor: they are late, which is no hang and does not end the warm starts."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Supervisor, answer_time, hanging_fork_server
from elasticjob_agent.supervisor import supervisor as supervisor_module
from elasticjob_agent.supervisor.answer_time import AnswerMeter, SchedulerSample
from elasticjob_agent.supervisor.launchers import ExecLauncher
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from testing.waiting import eventually
from tests.integration.warm_start.warm_node import WarmNode

_LIMIT_S = 0.1
_LOOPS = 4


class BusyProcessor:
    """One processor that others need all the time; starved processes get less than a thousandth of it."""

    def __init__(self) -> None:
        self._cpu = min(os.sched_getaffinity(0))
        code = f"import os\nos.sched_setaffinity(0, {{{self._cpu}}})\nprint(flush=True)\nwhile True: pass"
        command = [sys.executable, "-I", "-S", "-c", code]
        self.starved: list[int] = []
        self._loops = [subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(_LOOPS)]
        for loop in self._loops:
            assert loop.stdout
            loop.stdout.read(1)

    def starve(self, pids: Iterable[int]) -> None:
        """Let these processes run only while no other one needs the processor."""
        self.starved = list(pids)
        for pid in self.starved:
            os.sched_setaffinity(pid, {self._cpu})
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            # Each session is a group of its own where the kernel has autogroups; see sched(7).
            if (group := Path(f"/proc/{pid}/autogroup")).exists():
                eventually(functools.partial(_give_way, group), what="the lowest priority of a group")

    def end(self) -> None:
        """End the need of the others. May be called again."""
        for loop in self._loops:
            loop.kill()
            loop.wait()
            if loop.stdout:
                loop.stdout.close()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _give_way(group: Path) -> bool:
    """Give this group of processes the lowest priority; return False if the kernel wants a later attempt."""
    try:
        group.write_text("19")
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def busy() -> Iterator[BusyProcessor]:
    busy = BusyProcessor()
    yield busy
    busy.end()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the limits be short, and return a list of the times that processes have left at each look at them."""
    monkeypatch.setattr(hanging_fork_server, "START_S", _LIMIT_S)
    monkeypatch.setattr(hanging_fork_server, "ANSWER_S", _LIMIT_S)
    monkeypatch.setattr(supervisor_module, "ANSWER_S", _LIMIT_S)
    monkeypatch.setattr(ExecLauncher, "batch_s", _LIMIT_S)
    monkeypatch.setattr(answer_time, "MAX_SLOWNESS", 10_000.0)
    left_s = AnswerMeter.left_s
    looks: list[float] = []

    def look(self: AnswerMeter, now: SchedulerSample) -> float:
        looks.append(left_s(self, now))
        return looks[-1]

    monkeypatch.setattr(AnswerMeter, "left_s", look)
    return looks


async def _forked(node: WarmNode) -> None:
    node.script()
    await node.start()
    await node.ran()
    await node.forked_ahead()
    await node.stop()


async def _starts_warm(
    node: WarmNode, busy: BusyProcessor, looks: list[float], starved: Callable[[], Iterable[int]]
) -> None:
    """Start rounds until one was later than the limit: a process that has slept for long gets a processor at once."""
    looks.clear()
    for _ in range(20):
        busy.starve(starved())
        assert await node.start() == [True, True]
        await node.ran()
        if looks:
            return
        await node.forked_ahead()
        await node.stop()
    pytest.fail("no process was late")


async def _starts_late(node: WarmNode, busy: BusyProcessor) -> None:
    """Start rounds until one has a cold worker: a process that has slept for long gets a processor at once."""
    for _ in range(20):
        busy.starve(node.waiting())
        if not all(await node.start()):
            _signal(busy.starved, signal.SIGCONT)  # those that were not late
            return
        await node.ran()
        await node.forked_ahead()
        await node.stop()
    pytest.fail("no worker was late")


async def test_a_start_waits_for_workers_without_a_processor(
    node: WarmNode, busy: BusyProcessor, looks: list[float], sentences: Callable[[], list[str]]
) -> None:
    await _forked(node)
    await _starts_warm(node, busy, looks, node.waiting)
    assert sentences() == []


async def test_a_start_waits_for_a_fork_server_without_a_processor(
    node: WarmNode,
    supervisor: Supervisor,
    busy: BusyProcessor,
    looks: list[float],
    sentences: Callable[[], list[str]],
) -> None:
    await _forked(node)
    server = supervisor.server_pid
    await _starts_warm(node, busy, looks, lambda: [server])
    assert supervisor.server_pid == server
    assert sentences() == []


async def test_a_worker_that_is_too_late_is_one_cold_start(
    node: WarmNode,
    busy: BusyProcessor,
    looks: list[float],
    sentences: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await _forked(node)
    delayed = PreforkedWorker.delayed

    def end_load(self: PreforkedWorker, *, is_busy: bool) -> None:
        _signal(busy.starved, signal.SIGSTOP)  # so that none begins after all, when the load has ended
        busy.end()  # a killed process needs a processor for its end
        delayed(self, is_busy=is_busy)

    monkeypatch.setattr(PreforkedWorker, "delayed", end_load)
    monkeypatch.setattr(answer_time, "MAX_SLOWNESS", 1.0)
    await _starts_late(node, busy)
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    [sentence] = sentences()
    assert sentence.endswith("it was late, because the machine is busy")
    assert looks
