"""Report of a worker's end: exit code or signal, time, and whether the agent stopped it."""

import asyncio
import os
import signal
import sys
import time

import psutil

from elasticjob_agent.supervisor import Supervisor
from testing.waiting import aeventually
from tests.integration.supervisor.commands import Builder, RecordingConsole


async def test_every_exit_code_arrives(supervisor: Supervisor, build: Builder) -> None:
    children = await supervisor.spawn([build("sh", "-c", f"exit {code}") for code in range(256)])
    ends = [await child.exit for child in children]
    assert [end.code for end in ends] == list(range(256))
    assert {(end.signal_name, end.stopped_by_us) for end in ends} == {(None, False)}


_HARMLESS = {
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCONT,
    signal.SIGCHLD,
    signal.SIGURG,
    signal.SIGWINCH,
}
"""Signals that end no process by default."""


async def test_every_deadly_signal_arrives(supervisor: Supervisor, build: Builder) -> None:
    deadly = sorted(signal.valid_signals() - _HARMLESS)
    scripts = [f"ulimit -c 0; kill -{int(signum)} $$; sleep 600" for signum in deadly]
    children = await supervisor.spawn([build("sh", "-c", script) for script in scripts])
    ends = [await child.exit for child in children]
    assert [-end.code for end in ends] == [int(signum) for signum in deadly]
    names = [signum.name if isinstance(signum, signal.Signals) else f"signal {signum}" for signum in deadly]
    assert [end.signal_name for end in ends] == names


_TRACED = """
import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
os.kill(os.getpid(), signal.SIGUSR1)
signal.pause()
"""


async def test_a_worker_that_asks_its_parent_to_trace_it_goes_on(supervisor: Supervisor, build: Builder) -> None:
    """Each signal stops such a worker until its parent lets it continue; a stop is no exit."""
    [child] = await supervisor.spawn([build(sys.executable, "-c", _TRACED)])
    assert (await child.exit).code == 7


async def test_the_times_of_a_worker_are_in_order(supervisor: Supervisor, build: Builder) -> None:
    before_ns, before_s = time.time_ns(), time.monotonic()
    [child] = await supervisor.spawn([build("true")])
    end = await child.exit
    assert before_ns < child.started_at_ns < end.wall_ns < time.time_ns()
    assert before_s < end.at_s < time.monotonic()


async def test_an_end_by_a_stop_differs_from_an_end_before_it(supervisor: Supervisor, build: Builder) -> None:
    first, second = await supervisor.spawn([build("sh", "-c", "exit 3"), build("sleep", "1000")])
    await first.exit
    await supervisor.stop([first, second], grace_s=30)
    assert ((await first.exit).stopped_by_us, (await second.exit).stopped_by_us) == (False, True)


async def test_an_end_that_is_not_reported_yet_does_not_count_as_stopped_by_us(
    supervisor: Supervisor, build: Builder
) -> None:
    """The fork server is stopped while the worker ends, so both the end and the stop wait for it."""
    [child] = await supervisor.spawn([build("sleep", "1000")])
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    os.kill(child.pid, signal.SIGSEGV)
    stopping = asyncio.create_task(supervisor.stop([child], grace_s=30))
    await aeventually(lambda: supervisor._requests)
    await aeventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    os.kill(supervisor.server_pid, signal.SIGCONT)
    await stopping
    assert (child.exit.result().code, child.exit.result().stopped_by_us) == (-signal.SIGSEGV, False)


async def test_a_cancelled_wait_does_not_lose_the_end(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", "read x; echo end", stdout=out.sink())])
    child.exit.cancel()
    await child.drained
    assert (child.ended, out.lines) == (True, ["end"])
