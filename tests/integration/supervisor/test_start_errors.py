"""A worker that cannot be started: the error has name and reason, and nothing of its batch is left."""

import asyncio
import resource
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import (
    CommandNotExecutable,
    CommandNotFound,
    FileSink,
    StartError,
    Supervisor,
    SupervisorError,
)
from elasticjob_agent.supervisor.worker_streams import open_streams
from testing.processes.census import Census
from testing.waiting import aeventually
from tests.integration.supervisor.commands import Builder


async def test_a_missing_command_is_named_with_the_workers_own_path(supervisor: Supervisor, build: Builder) -> None:
    env = build.env | {"PATH": "/opt/none:/bin"}
    with pytest.raises(CommandNotFound, match=r"worker: command 'trian' not found.*'/opt/none:/bin'") as caught:
        await supervisor.spawn([build("trian", env=env)])
    assert (caught.value.command, caught.value.path, caught.value.exit_code) == ("trian", "/opt/none:/bin", 127)


async def test_a_command_outside_the_workers_path_is_not_found(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(CommandNotFound):
        await supervisor.spawn([build("true", env={"PATH": "/opt/none"})])


async def test_a_missing_file_with_a_slash_is_named(supervisor: Supervisor, build: Builder, tmp_path: Path) -> None:
    with pytest.raises(CommandNotFound, match=r"'./train.sh' not found: no such file"):
        await supervisor.spawn([build("./train.sh", cwd=str(tmp_path))])


async def test_a_missing_interpreter_differs_from_a_missing_file(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/opt/none/python\n")
    script.chmod(0o755)
    with pytest.raises(CommandNotFound, match="the file exists, but the interpreter in its first line"):
        await supervisor.spawn([build(str(script))])


@pytest.mark.parametrize(
    ("text", "mode"), [pytest.param("#!/bin/sh\n", 0o644, id="no x bit"), pytest.param("x\n", 0o755, id="no program")]
)
async def test_a_file_that_cannot_be_executed_is_named(
    supervisor: Supervisor, build: Builder, tmp_path: Path, text: str, mode: int
) -> None:
    script = tmp_path / "train.sh"
    script.write_text(text)
    script.chmod(mode)
    with pytest.raises(CommandNotExecutable, match=r"train.sh' cannot be executed") as caught:
        await supervisor.spawn([build(str(script))])
    assert caught.value.exit_code == 126


async def test_a_missing_working_directory_is_named(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(StartError, match="worker: cannot enter its working directory '/opt/none': No such file"):
        await supervisor.spawn([build("true", cwd="/opt/none")])


async def test_arguments_too_long_for_the_kernel_are_an_error(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(StartError, match="Argument list too long"):
        await supervisor.spawn([build("true", "x" * 200_000)])


async def test_a_log_file_that_cannot_be_opened_is_named(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(StartError, match="worker: not started: cannot open /opt/none/log: No such file"):
        await supervisor.spawn([build("true", stdout=FileSink(Path("/opt/none/log")))])


@pytest.mark.parametrize("bad", ["/opt/none/it", "cwd", "file"])
async def test_the_whole_batch_of_a_worker_that_cannot_start_is_ended(
    supervisor: Supervisor, build: Builder, census: Census, bad: str
) -> None:
    last = {
        "/opt/none/it": build("/opt/none/it"),
        "cwd": build("true", cwd="/opt/none"),
        "file": build("true", stdout=FileSink(Path("/opt/none/log"))),
    }[bad]
    with pytest.raises(StartError):
        await supervisor.spawn([*(build("sleep", "1000") for _ in range(5)), last, build("sleep", "1000")])
    assert census.found(besides=supervisor.server_pid) == []


async def test_a_cancelled_start_leaves_nothing(supervisor: Supervisor, build: Builder, census: Census) -> None:
    commands = [build("sleep", "1000") for _ in range(100)]
    spawning = asyncio.create_task(supervisor.spawn(commands))
    await aeventually(lambda: census.found(besides=supervisor.server_pid))
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    assert census.found(besides=supervisor.server_pid) == []


@pytest.mark.parametrize("free", [0, 1, 3])
async def test_a_fork_server_without_free_descriptors_reports_it_and_continues(
    supervisor: Supervisor, build: Builder, free: int
) -> None:
    [child] = await supervisor.spawn([build("sleep", "1000")])
    open_fds = psutil.Process(supervisor.server_pid).num_fds()
    limits = resource.prlimit(supervisor.server_pid, resource.RLIMIT_NOFILE)
    resource.prlimit(supervisor.server_pid, resource.RLIMIT_NOFILE, (open_fds + free, limits[1]))
    with pytest.raises(StartError, match="Too many open files"):
        await supervisor.spawn([build("true")])
    resource.prlimit(supervisor.server_pid, resource.RLIMIT_NOFILE, limits)
    [other] = await supervisor.spawn([build("true")])
    assert (await other.exit).code == 0
    assert not child.ended
    assert psutil.Process(supervisor.server_pid).num_fds() == open_fds


async def test_the_supervisor_continues_after_a_failed_start(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(CommandNotFound):
        await supervisor.spawn([build("none")])
    [child] = await supervisor.spawn([build("true")])
    assert (await child.exit).code == 0


async def test_a_closed_supervisor_starts_nothing(supervisor: Supervisor, build: Builder) -> None:
    await supervisor.close()
    with pytest.raises(SupervisorError, match="closed"):
        await supervisor.spawn([build("true")])


def test_a_command_that_can_be_written_in_part_only_is_an_error(build: Builder) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(StartError, match="File too large"), open_streams(build("true", "x" * 10_000)):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
