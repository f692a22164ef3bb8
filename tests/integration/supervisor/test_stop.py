"""Stop: one signal for all groups, one grace for all, and no process survives."""

import asyncio
import os
import signal
import time

import psutil

from elasticjob_agent.supervisor import Supervisor
from testing.processes.census import Census
from testing.waiting import aeventually, eventually
from tests.integration.supervisor.commands import Builder, RecordingConsole, sentence

_STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1000; done"
_POLITE = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done"


async def test_a_worker_may_handle_the_signal(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", _POLITE, stdout=out.sink())])
    await out.line("ready")
    await supervisor.stop([child], grace_s=30)
    assert child.exit.result().code == 4
    assert child.drained.done()
    assert out.lines == ["ready", "bye"]


async def test_a_worker_that_ignores_the_signal_is_killed(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", _STUBBORN, stdout=out.sink())])
    await out.line("ready")
    await supervisor.stop([child], grace_s=0.1)
    assert await sentence(child) == "killed by SIGKILL"


async def test_eight_that_ignore_it_share_one_grace(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    children = await supervisor.spawn([build("sh", "-c", _STUBBORN, stdout=out.sink()) for _ in range(8)])
    await aeventually(lambda: len(out.lines) == 8)
    await supervisor.stop(children, grace_s=1.0)
    ends_s = [child.exit.result().at_s for child in children]
    assert max(ends_s) - min(ends_s) < 1.0


async def test_the_first_signal_can_be_chosen(supervisor: Supervisor, build: Builder) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    await supervisor.stop([child], sig=signal.SIGUSR1, grace_s=30)
    assert await sentence(child) == "killed by SIGUSR1"


async def test_without_a_grace_only_sigkill_is_sent(supervisor: Supervisor, build: Builder) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    await supervisor.stop([child], grace_s=0)
    assert await sentence(child) == "killed by SIGKILL"


async def test_a_group_gets_the_signal_even_if_its_leader_is_dead(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", f"({_POLITE}) & exit 0", stdout=out.sink())])
    await out.line("ready")
    await child.exit
    await supervisor.stop([child], grace_s=30)
    assert out.lines == ["ready", "bye"]


async def test_a_shells_command_gets_its_grace_even_if_the_shell_dies_at_once(
    supervisor: Supervisor, build: Builder
) -> None:
    out = RecordingConsole()
    slow = "trap 'sleep 0.1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    [child] = await supervisor.spawn([build("sh", "-c", f'sh -c "{slow}"; true', stdout=out.sink())])
    await out.line("ready")
    await supervisor.stop([child], grace_s=30)
    assert out.lines == ["ready", "saved"]


async def test_a_stopped_process_gets_the_signal(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    script = "trap 'echo bye; exit 4' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done"
    [child] = await supervisor.spawn([build("sh", "-c", script, stdout=out.sink())])
    await aeventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
    await supervisor.stop([child], grace_s=30)
    assert out.lines == ["ready", "bye"]


async def test_a_second_stop_without_grace_ends_the_first(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", _STUBBORN, stdout=out.sink())])
    await out.line("ready")
    first = asyncio.create_task(supervisor.stop([child], grace_s=1000))
    await supervisor.stop([child], grace_s=0)
    await first
    assert await sentence(child) == "killed by SIGKILL"


async def test_two_stops_send_the_same_signal_once(supervisor: Supervisor, build: Builder) -> None:
    """The second could break a checkpoint that the first has requested."""
    out = RecordingConsole()
    script = "trap 'echo term' TERM; trap 'exit 0' XCPU; echo ready; while :; do sleep 0.01; done"
    [child] = await supervisor.spawn([build("sh", "-c", script, stdout=out.sink())])
    await out.line("ready")
    first = asyncio.create_task(supervisor.stop([child], grace_s=1000))
    await out.line("term")
    second = asyncio.create_task(supervisor.stop([child], grace_s=1000))
    await aeventually(lambda: len(supervisor._requests) == 2)
    await supervisor.stop([child], sig=signal.SIGXCPU, grace_s=1000)  # a higher number: its trap runs after TERM's
    await asyncio.gather(first, second)
    assert out.lines == ["ready", "term"]


async def test_a_late_event_loop_does_not_count_ended_workers_as_wedged(census: Census, build: Builder) -> None:
    supervisor = await Supervisor.create(reap_s=0.2)
    [child] = await supervisor.spawn([build("sleep", "1000")])
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    stopping = asyncio.create_task(supervisor.stop([child], grace_s=0))
    await aeventually(lambda: supervisor._requests)
    late_s = time.monotonic() + 0.3
    os.kill(supervisor.server_pid, signal.SIGCONT)
    eventually(lambda: not psutil.pid_exists(child.pid) and time.monotonic() > late_s)
    await stopping
    assert not child.wedged
    await supervisor.close()
    assert census.found() == []


async def test_a_stop_of_ended_workers_or_of_none_is_no_error(supervisor: Supervisor, build: Builder) -> None:
    [child] = await supervisor.spawn([build("true")])
    await child.exit
    await supervisor.stop([child], grace_s=1000)
    await supervisor.stop([child], grace_s=1000)
    await supervisor.stop([], grace_s=1000)
    await supervisor.close()
    await supervisor.stop([child], grace_s=1000)
    assert await sentence(child) == "exited with code 0"


async def test_close_ends_all_workers_and_may_be_repeated(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    children = await supervisor.spawn([build("sleep", "1000") for _ in range(3)])
    await asyncio.gather(supervisor.close(), supervisor.close())
    assert [child.exit.result().stopped_by_us for child in children] == [True] * 3
    assert census.found() == []
