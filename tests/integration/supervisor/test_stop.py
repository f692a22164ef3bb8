"""Stop: one signal for all groups, one grace for all, and no process survives. Cold and warm workers alike."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

import psutil
import pytest

from elasticjob_agent.supervisor import Child, Command, Supervisor
from testing.processes.census import Census
from testing.waiting import aeventually, eventually
from tests.integration.supervisor.commands import Builder, RecordingConsole, sentence, take_descriptors
from tests.integration.supervisor.warm_spawn import spawn_warm

Spawn = Callable[[Sequence[Command]], Awaitable[list[Child]]]
_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""
_POLITE = """
import os, signal
def leave(*_):
    os.write(1, b"bye\\n")  # the signal may come in the middle of the other write
    os._exit(4)
signal.signal(signal.SIGTERM, leave)
os.write(1, b"ready\\n")
{then}
while True:
    signal.pause()
"""
_MANY = 4
_IDLE = "import signal; signal.pause()"
_POLITE_SHELL = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done"
_STUBBORN_SHELL = "trap '' TERM; echo ready; while :; do sleep 1000; done"


@pytest.fixture(params=["cold", "warm"])
def spawn(request: pytest.FixtureRequest, supervisor: Supervisor) -> Spawn:
    """Return a function that starts workers, cold or from zygotes."""
    if request.param == "cold":
        return supervisor.spawn
    return lambda commands: spawn_warm(supervisor, commands)


async def test_a_worker_may_handle_the_signal(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await spawn([build.python_with_site(_POLITE.format(then=""), stdout=out.sink())])
    await out.line("ready")
    await supervisor.stop([child], grace_s=30)
    assert child.exit.result().code == 4
    assert child.drained.done()
    assert out.lines == ["ready", "bye"]


async def test_a_worker_that_ignores_the_signal_is_killed(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await spawn([build.python_with_site(_STUBBORN, stdout=out.sink())])
    await out.line("ready")
    await supervisor.stop([child], grace_s=0.1)
    assert await sentence(child) == "killed by SIGKILL"


async def test_all_that_ignore_it_share_one_grace(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    out = RecordingConsole()
    children = await spawn([build.python_with_site(_STUBBORN, stdout=out.sink()) for _ in range(_MANY)])
    await aeventually(lambda: len(out.lines) == _MANY)
    await supervisor.stop(children, grace_s=1.0)
    ends_s = [child.exit.result().at_s for child in children]
    assert max(ends_s) - min(ends_s) < 1.0


async def test_the_first_signal_can_be_chosen(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    [child] = await spawn([build.python_with_site(_IDLE)])
    await supervisor.stop([child], sig=signal.SIGUSR1, grace_s=30)
    assert await sentence(child) == "killed by SIGUSR1"


async def test_without_a_grace_only_sigkill_is_sent(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    [child] = await spawn([build.python_with_site(_IDLE)])
    await supervisor.stop([child], grace_s=0)
    assert await sentence(child) == "killed by SIGKILL"


async def test_a_group_gets_the_signal_even_if_its_leader_is_dead(
    supervisor: Supervisor, spawn: Spawn, build: Builder
) -> None:
    out = RecordingConsole()
    leaves = f"import subprocess; subprocess.Popen(['sh', '-c', {_POLITE_SHELL!r}])"
    [child] = await spawn([build.python_with_site(leaves, stdout=out.sink())])
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


async def test_a_stopped_process_gets_the_signal(supervisor: Supervisor, spawn: Spawn, build: Builder) -> None:
    out = RecordingConsole()
    script = _POLITE.format(then="os.kill(os.getpid(), signal.SIGSTOP)")
    [child] = await spawn([build.python_with_site(script, stdout=out.sink())])
    await aeventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
    await supervisor.stop([child], grace_s=30)
    assert out.lines == ["ready", "bye"]


async def test_a_second_stop_without_grace_ends_the_first(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", _STUBBORN_SHELL, stdout=out.sink())])
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


async def test_a_stop_waits_until_the_fork_server_has_descriptors_again(supervisor: Supervisor, build: Builder) -> None:
    """It cannot read which processes are left. The other worker goes on."""
    children = await supervisor.spawn([build("sleep", "1000"), build("sleep", "1000")])
    limit = take_descriptors(supervisor.server_pid)
    server = supervisor.server_pid
    stopping = asyncio.create_task(supervisor.stop(children[:1], grace_s=10_000.0, reap_s=10_000.0))
    await children[0].exit
    assert children[0].exit.result().sentence == "killed by SIGTERM"
    assert not stopping.done()
    resource.prlimit(server, resource.RLIMIT_NOFILE, limit)
    await stopping
    assert (supervisor.server_pid, children[0].wedged, children[1].ended) == (server, False, False)
