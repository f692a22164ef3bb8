"""The death of the agent or its fork server: the workers end too, with everything they started."""

import asyncio
import json
import os
import select
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
from testing.waiting import aeventually, eventually, scaled
from tests.integration.supervisor.commands import Builder, RecordingConsole, sentence, take_descriptors
from tests.integration.supervisor.trees import TREES, script

_ROOT = Path(__file__).resolve().parents[3]
_AGENT = """
import asyncio, os, sys, time
from elasticjob_agent.supervisor import Command, Inherit, Supervisor

async def main():
    supervisor = await Supervisor.create()
    is_warm = sys.argv[3] == "warm"
    argv = (sys.executable, *(() if is_warm else ("-I", "-S")), "-c", sys.argv[1], "stay")
    env = dict(os.environ)
    command = Command(name="worker", argv=argv, env=env, cwd=None, stdout=Inherit(), stderr=Inherit())
    if is_warm:
        from tests.integration.supervisor.warm_spawn import fork_ahead
        # Four wait, and two of them get their command.
        forked = await fork_ahead(supervisor, command, 4)
        children = await supervisor.spawn([command, command], forked[:2])
        assert all(child.is_warm for child in children)
    else:
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

    def __init__(self, census: Census, shape: str, kind: str = "stays", start: str = "cold") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AGENT, script(shape), kind, start],
            env=dict(os.environ) | {MARKER: census.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout
        assert [self.process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2


@pytest.mark.parametrize(("start", "count"), [("cold", 2), ("warm", 4)])
def test_the_kernel_alone_ends_the_workers_of_a_killed_fork_server(census: Census, start: str, count: int) -> None:
    """The agent is stopped, so it cannot end them."""
    agent = _Agent(census, "nothing but itself", start=start)
    [fork_server] = psutil.Process(agent.process.pid).children()
    workers = fork_server.children()
    with agent.process as process:
        process.send_signal(signal.SIGSTOP)
        fork_server.kill()
        _, alive = psutil.wait_procs(workers, timeout=10)
        process.kill()
    assert (len(workers), alive) == (count, [])


@pytest.mark.parametrize("start", ["cold", "warm"])
@pytest.mark.parametrize("shape", TREES)
def test_a_killed_agent_leaves_nothing_of_its_workers_trees(census: Census, shape: str, start: str) -> None:
    agent = _Agent(census, shape, start=start)
    with agent.process as process:
        process.kill()
        assert process.stdout
        assert process.stdout.read() == b""  # ends when the last process of both trees has closed it
    eventually(lambda: not census.found(), what="no process left")


def test_an_agent_that_forgets_to_close_leaves_nothing(census: Census) -> None:
    agent = _Agent(census, "a daemon, forked twice", "leaves")
    with agent.process as process:
        process.communicate(b"go\n")
    eventually(lambda: not census.found(), what="no process left")


def test_a_killed_agent_is_noticed_even_if_a_fork_of_it_has_its_socket(census: Census) -> None:
    agent = _Agent(census, "a daemon, forked twice", "forked")
    with agent.process as process:
        process.kill()
    fork = eventually(lambda: _only(census.found()), what="nothing but the fork")
    assert fork is not None
    assert fork.cmdline()[:2] == [sys.executable, "-c"]
    fork.kill()
    eventually(lambda: not census.found(), what="no process left")


def _only(found: list[psutil.Process]) -> psutil.Process | None:
    return found[0] if len(found) == 1 else None


async def test_workers_end_with_a_killed_fork_server(supervisor: Supervisor, build: Builder, census: Census) -> None:
    out = RecordingConsole()
    tree = build.python(script("a tree that ignores signals"), "stay", stdout=out.sink())
    children = await supervisor.spawn([tree, tree])
    await aeventually(lambda: out.lines == ["ready"] * 2)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    assert [await sentence(child) for child in children] == ["killed by SIGKILL (its fork server has ended)"] * 2
    assert not any(child.exit.result().stopped_by_us for child in children)
    await asyncio.gather(*(child.drained for child in children))
    await _ended(census)


async def test_workers_that_end_with_a_fork_server_that_fails_were_not_stopped(
    supervisor: Supervisor, build: Builder
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    await supervisor._client.send(b"ping")  # without a number: an error that the fork server does not handle
    end = await child.exit
    assert (end.code, end.stopped_by_us) == (-signal.SIGKILL, False)


async def test_a_close_leaves_nothing_although_the_fork_server_has_no_descriptor_left(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    out = RecordingConsole()
    await supervisor.spawn([build.python(script("a daemon, forked twice"), "stay", stdout=out.sink())])
    await out.line("ready")
    take_descriptors(supervisor.server_pid)
    await supervisor.close()
    assert census.found() == []


def test_workers_end_where_the_kernel_has_no_handles_of_processes(census: Census) -> None:
    command = [sys.executable, "-m", "tests.integration.supervisor.no_handles"]
    env = {**os.environ, MARKER: census.token}
    done = subprocess.run(command, cwd=_ROOT, env=env, capture_output=True, text=True, check=False, timeout=scaled(30))
    assert done.returncode == 0, done.stderr
    lost = "killed by SIGKILL (its fork server has ended)"
    assert json.loads(done.stdout) == ["killed by SIGKILL", False, True, lost], done.stderr


async def _ended(census: Census) -> None:
    """Wait for the end of a dead fork server's workers, which is known before the kernel has killed each of them."""
    await aeventually(lambda: not census.found(), what="the end of the workers")


async def test_the_next_spawn_starts_a_new_fork_server(supervisor: Supervisor, build: Builder, census: Census) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    first = supervisor.server_pid
    os.kill(first, signal.SIGKILL)
    await child.exit
    await supervisor.stop([child], grace_s=1000)
    await _ended(census)
    [child] = await supervisor.spawn([build("true")])
    assert (await child.exit).code == 0
    assert supervisor.server_pid != first


async def test_the_answer_to_a_cancelled_question_does_not_hide_a_hang(supervisor: Supervisor) -> None:
    client = supervisor._client
    server = psutil.Process(client.pid)
    server.suspend()
    asking = asyncio.create_task(client.end_if_hanging(within_s=scaled(1000)))
    await asyncio.sleep(0)  # the question is sent
    asking.cancel()
    await asyncio.wait([asking])
    server.resume()
    # The loop does not run here, so the answer is read after the next question.
    assert select.select([client._socket], [], [], scaled(30))[0]
    server.suspend()
    eventually(lambda: server.status() == psutil.STATUS_STOPPED, what="the stop of the fork server")
    assert await client.end_if_hanging(within_s=0.1)


async def test_a_fork_server_that_dies_while_it_starts_workers_is_an_error(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    await supervisor.spawn([build("sleep", "1000")])  # so the fork server is not killed because it does not answer
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    commands = [build("sleep", "1000") for _ in range(5)]
    spawning = asyncio.create_task(supervisor.spawn(commands))
    await aeventually(lambda: len(supervisor._children) > 1)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    with pytest.raises(ForkServerLost):
        await spawning
    await _ended(census)


async def test_a_fork_server_that_dies_during_a_stop_ends_the_stop(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    stopping = asyncio.create_task(supervisor.stop([child], grace_s=1000))
    await aeventually(lambda: supervisor._requests)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    await stopping
    assert await sentence(child) == "killed by SIGKILL (its fork server has ended)"
    await _ended(census)


async def test_a_stop_after_the_fork_servers_death_still_reports_the_exits(
    supervisor: Supervisor, build: Builder, census: Census
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    fork_server = psutil.Process(supervisor.server_pid)
    fork_server.kill()
    eventually(lambda: fork_server.status() == psutil.STATUS_ZOMBIE, what="a dead fork server, unknown to the loop")
    await supervisor.stop([child], grace_s=1000)
    assert child.exit.result().sentence == "killed by SIGKILL (its fork server has ended)"
    await _ended(census)


async def test_a_fork_server_that_cannot_run_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ForkServerLost, match=r"cannot run the fork server .*No such file"):
        await Supervisor.create()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ForkServerLost, match="ended with code 1"):
        await Supervisor.create()


async def test_signals_of_a_terminal_do_not_reach_the_fork_server(supervisor: Supervisor, build: Builder) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    assert os.getsid(supervisor.server_pid) == supervisor.server_pid
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(supervisor.server_pid, signum)
    [other] = await supervisor.spawn([build("true")])
    assert (await other.exit).code == 0
    assert not child.ended


def test_workers_outlive_the_thread_that_started_them(build: Builder) -> None:
    """The kernel sends parent-death signals per thread; only the process must count."""

    async def start() -> tuple[Supervisor, Child, int]:
        supervisor = await Supervisor.create()
        [child] = await supervisor.spawn([build("sleep", "1000")])
        return supervisor, child, threading.get_native_id()

    async def check(supervisor: Supervisor, child: Child) -> None:
        [other] = await supervisor.spawn([build("true")])
        assert (await other.exit).code == 0
        assert not child.ended
        await supervisor.close()

    with asyncio.Runner() as runner:
        with ThreadPoolExecutor(1) as threads:
            supervisor, child, tid = threads.submit(lambda: runner.get_loop().run_until_complete(start())).result()
        eventually(lambda: not Path(f"/proc/self/task/{tid}").exists(), what="the thread's end")
        runner.run(check(supervisor, child))
