"""A fork server that hangs while workers run: their ends are noticed, and a stop is bounded."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import Child, ForkServerLost, Supervisor, hanging_fork_server
from elasticjob_agent.supervisor.launchers import ExecLauncher
from testing.waiting import aeventually, scaled
from tests.integration.supervisor.commands import Builder

_END = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(int(sys.argv[2]))"
_HUNG = "its fork server hung, and was killed"


async def _run(supervisor: Supervisor, build: Builder, folder: Path, codes: list[int]) -> list[Child]:
    """Start a worker for each code, which ends with it when a file with its rank exists; the fork server stops."""
    commands = [
        build(sys.executable, "-I", "-S", "-c", _END, str(folder / str(rank)), str(code))
        for rank, code in enumerate(codes)
    ]
    children = await supervisor.spawn(commands)
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    return children


def _has_socket(pid: int) -> bool:
    return any(str(each.readlink()).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())


def _is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def _starts_again(supervisor: Supervisor, build: Builder, server: int) -> None:
    [child] = await supervisor.spawn([build("true")])
    assert (await child.exit).code == 0
    assert supervisor.server_pid != server


async def test_a_fork_server_that_hangs_before_it_is_ready_is_replaced(
    build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nkill -STOP $$\n")
    hanging.chmod(0o700)
    with monkeypatch.context() as first:
        first.setattr(sys, "executable", str(hanging))
        first.setattr(ExecLauncher, "start_s", 0.1)
        supervisor = Supervisor.begin()
        server = supervisor.server_pid
        with pytest.raises(ForkServerLost, match="did not start within"):
            await supervisor.spawn([build("true")])
    try:
        await _starts_again(supervisor, build, server)
    finally:
        await supervisor.close()


@pytest.mark.parametrize("grace_s", [0.0, 10_000.0])
async def test_a_stop_kills_a_fork_server_that_hangs_and_its_workers(
    supervisor: Supervisor, build: Builder, tmp_path: Path, grace_s: float
) -> None:
    children = await _run(supervisor, build, tmp_path, [0, 0])
    server = supervisor.server_pid
    async with asyncio.timeout(scaled(30)):
        await supervisor.stop(children, grace_s=grace_s, reap_s=60.0)
    ends = [child.exit.result() for child in children]
    assert [end.sentence for end in ends] == [f"killed by SIGKILL ({_HUNG})"] * 2
    assert all(end.stopped_by_us for end in ends)
    await aeventually(lambda: not any(_is_running(child.pid) for child in children), what="the end of the workers")
    await _starts_again(supervisor, build, server)


async def test_a_failure_is_noticed_although_the_fork_server_hangs(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    children = await _run(supervisor, build, tmp_path, [3, 0])
    server = supervisor.server_pid
    (tmp_path / "0").touch()
    async with asyncio.timeout(scaled(30)):
        ends = [await child.exit for child in children]
    assert [end.sentence for end in ends] == [f"exited with code 3 ({_HUNG})", f"killed by SIGKILL ({_HUNG})"]
    assert not any(end.stopped_by_us for end in ends)
    await _starts_again(supervisor, build, server)


async def test_a_fork_server_that_hangs_while_a_worker_is_very_late_ends_the_start(
    supervisor: Supervisor, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has had its time, for example for an exec from a slow disk, when the fork server hangs."""
    monkeypatch.setattr(hanging_fork_server, "START_S", 0.0)
    server = psutil.Process(supervisor.server_pid)
    end_if_hanging = supervisor._client.end_if_hanging

    async def answer_and_stop(*, within_s: float) -> bool:
        monkeypatch.setattr(supervisor._client, "end_if_hanging", end_if_hanging)
        is_killed = await end_if_hanging(within_s=within_s)
        server.suspend()
        return is_killed

    async def stop_second() -> None:
        first = min(supervisor._children.values(), key=lambda child: child.number)
        await aeventually(lambda: first.pid, what="the start of the first worker")
        [forked] = [each for each in server.children() if each.pid != first.pid]
        # It closes the socket of the fork server before it waits at its latch.
        await aeventually(lambda: not _has_socket(forked.pid), what="the setup of the second worker")
        forked.suspend()
        monkeypatch.setattr(supervisor._client, "end_if_hanging", answer_and_stop)

    with pytest.raises(ForkServerLost, match="the fork server hung, and was killed"):
        async with asyncio.timeout(scaled(30)):
            await supervisor.spawn([build("sleep", "1000")] * 2, after_first=stop_second)


async def test_a_worker_that_has_ended_well_ends_no_other_one(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    children = await _run(supervisor, build, tmp_path, [0, 3])
    (tmp_path / "0").touch()
    await aeventually(lambda: not _is_running(children[0].pid), what="the end of the first worker")
    (tmp_path / "1").touch()
    async with asyncio.timeout(scaled(30)):
        ends = [await child.exit for child in children]
    # The kernel shows 0 for the code of a worker with another user, too.
    assert [end.sentence for end in ends] == [f"killed by SIGKILL ({_HUNG})", f"exited with code 3 ({_HUNG})"]
