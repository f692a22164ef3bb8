"""When the agent dies, or its starter: the workers go too, with everything they started."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import Child, ForkServerLost, Supervisor
from testing.processes.census import MARKER, Census
from testing.waiting import aeventually, eventually
from tests.integration.supervisor.commands import Builder, Caught, sentence
from tests.integration.supervisor.trees import TREES, script

_AGENT = """
import asyncio, os, sys, time
from elasticjob_agent.supervisor import Command, Inherit, Supervisor

async def main():
    supervisor = await Supervisor.create()
    argv = (sys.executable, "-I", "-S", "-c", sys.argv[1], "stay")
    env = dict(os.environ)
    command = Command(name="worker", argv=argv, env=env, cwd=None, stdout=Inherit(), stderr=Inherit())
    await supervisor.spawn([command, command])
    if sys.argv[2] == "forked" and os.fork() == 0:
        time.sleep(1000)
    if sys.argv[2] == "leaves":
        sys.stdin.readline()
        os._exit(0)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


class _Agent:
    """A whole agent process with two workers."""

    def __init__(self, census: Census, shape: str, kind: str = "stays") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AGENT, script(shape), kind],
            env=dict(os.environ) | {MARKER: census.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout
        assert [self.process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2


def test_the_kernel_alone_ends_the_workers_of_a_killed_starter(census: Census) -> None:
    """The agent is stopped, so it cannot be what ends them."""
    agent = _Agent(census, "nothing but itself")
    [starter] = psutil.Process(agent.process.pid).children()
    workers = starter.children()
    with agent.process as process:
        process.send_signal(signal.SIGSTOP)
        starter.kill()
        _, alive = psutil.wait_procs(workers, timeout=10)
        process.kill()
    assert (len(workers), alive) == (2, [])


@pytest.mark.parametrize("shape", TREES)
def test_a_killed_agent_leaves_nothing_of_its_workers_trees(census: Census, shape: str) -> None:
    agent = _Agent(census, shape)
    with agent.process as process:
        process.kill()
        assert process.stdout
        assert process.stdout.read() == b""  # comes when the last of both trees has let go of it
    eventually(lambda: not census.found(), what="everything gone")


def test_an_agent_that_forgets_to_close_leaves_nothing(census: Census) -> None:
    agent = _Agent(census, "a daemon, forked twice", "leaves")
    with agent.process as process:
        process.communicate(b"go\n")
    eventually(lambda: not census.found(), what="everything gone")


def test_a_killed_agent_is_noticed_though_a_fork_of_it_holds_its_socket(census: Census) -> None:
    agent = _Agent(census, "a daemon, forked twice", "forked")
    with agent.process as process:
        process.kill()
    fork = eventually(lambda: _only(census.found()), what="nothing but the fork")
    assert fork is not None
    assert fork.cmdline()[:2] == [sys.executable, "-c"]
    fork.kill()
    eventually(lambda: not census.found(), what="everything gone")


def _only(found: list[psutil.Process]) -> psutil.Process | None:
    return found[0] if len(found) == 1 else None


async def test_a_killed_starter_takes_its_workers_along(supervisor: Supervisor, build: Builder, census: Census) -> None:
    out = Caught()
    tree = build.python(script("a tree that ignores signals"), "stay", stdout=out.sink())
    children = await supervisor.spawn([tree, tree])
    await aeventually(lambda: out.lines == ["ready"] * 2)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    assert [await sentence(child) for child in children] == ["killed by SIGKILL (its starter is gone)"] * 2
    assert not any(child.exit.result().stopped_by_us for child in children)
    await asyncio.gather(*(child.drained for child in children))
    await _ended(census)


async def _ended(census: Census) -> None:
    """A dead starter's workers: that the kernel kills them is known before each of them has gone."""
    await aeventually(lambda: not census.found(), what="the end of the workers")


async def test_the_next_spawn_makes_a_new_starter(supervisor: Supervisor, build: Builder, census: Census) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    first = supervisor.server_pid
    os.kill(first, signal.SIGKILL)
    await child.exit
    await supervisor.stop([child], grace_s=1000)
    await _ended(census)
    [child] = await supervisor.spawn([build("true")])
    assert (await child.exit).code == 0
    assert supervisor.server_pid != first


async def test_a_starter_that_dies_while_it_starts_workers_is_an_error(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    commands = [build("sleep", "1000") for _ in range(5)]
    spawning = asyncio.create_task(supervisor.spawn(commands))
    await aeventually(lambda: supervisor._children)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    with pytest.raises(ForkServerLost):
        await spawning
    await _ended(census)


async def test_a_starter_that_dies_during_a_stop_ends_the_stop(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    stopping = asyncio.create_task(supervisor.stop([child], grace_s=1000))
    await aeventually(lambda: supervisor._requests)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    await stopping
    assert await sentence(child) == "killed by SIGKILL (its starter is gone)"
    await _ended(census)


async def test_a_stop_that_finds_the_starter_dead_still_tells_the_ends(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    starter = psutil.Process(supervisor.server_pid)
    starter.kill()
    eventually(lambda: starter.status() == psutil.STATUS_ZOMBIE, what="a dead starter that the loop knows nothing of")
    await supervisor.stop([child], grace_s=1000)
    assert child.exit.result().sentence == "killed by SIGKILL (its starter is gone)"
    await _ended(census)


async def test_a_starter_that_cannot_run_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ForkServerLost, match=r"cannot run the starter .*No such file"):
        await Supervisor.create()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ForkServerLost, match="ended with code 1"):
        await Supervisor.create()


async def test_signals_of_a_terminal_do_not_reach_the_starter(supervisor: Supervisor, build: Builder) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    assert os.getsid(supervisor.server_pid) == supervisor.server_pid
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(supervisor.server_pid, signum)
    [other] = await supervisor.spawn([build("true")])
    assert (await other.exit).code == 0
    assert not child.ended


def test_workers_outlive_the_thread_that_started_them(build: Builder) -> None:
    """Parent death is told per thread by the kernel; only the process counts."""

    async def start() -> tuple[Supervisor, Child, int]:
        supervisor = await Supervisor.create()
        [child] = await supervisor.spawn([build("sleep", "1000")])
        return supervisor, child, threading.get_native_id()

    async def look(supervisor: Supervisor, child: Child) -> None:
        [other] = await supervisor.spawn([build("true")])
        assert (await other.exit).code == 0
        assert not child.ended
        await supervisor.close()

    with asyncio.Runner() as runner:
        with ThreadPoolExecutor(1) as threads:
            supervisor, child, tid = threads.submit(lambda: runner.get_loop().run_until_complete(start())).result()
        eventually(lambda: not Path(f"/proc/self/task/{tid}").exists(), what="the thread's end")
        runner.run(look(supervisor, child))
