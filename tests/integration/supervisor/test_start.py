"""A worker at its start: it has exactly what its command lists, and nothing of the agent."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import FileSink, Inherit, Null, StartError, Supervisor, SupervisorError
from tests.integration.supervisor.commands import Builder, RecordingConsole, sentence


async def test_the_environment_is_the_given_one_and_nothing_else(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    env = build.env | {"EMPTY": "", "LINES": "a\nb=c", "BYTES": os.fsdecode(b"\xff\xfe"), "BASH_FUNC_f%%": "() { :; }"}
    [child] = await supervisor.spawn([build("env", "-0", env=env, stdout=out.sink())])
    await child.drained
    entries = out.data.removesuffix(b"\n").rstrip(b"\0").split(b"\0")
    assert sorted(entries) == sorted(os.fsencode(f"{key}={value}") for key, value in env.items())


async def test_arguments_arrive_unchanged(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    script = "import os, sys; print(os.fsencode('|'.join(sys.argv[1:])).hex())"
    arguments = ("", "a b", "ü\n", os.fsdecode(b"\xff"))
    [child] = await supervisor.spawn([build.python(script, *arguments, stdout=out.sink())])
    await child.drained
    assert bytes.fromhex(out.lines[0]) == b"|".join(map(os.fsencode, arguments))


async def test_it_runs_on_the_given_processors_and_no_others(supervisor: Supervisor, build: Builder) -> None:
    out, last = RecordingConsole(), max(os.sched_getaffinity(0))
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    bound = replace(build.python(script, stdout=out.sink()), cpus=frozenset({last}))
    [child] = await supervisor.spawn([bound])
    await child.drained
    assert out.lines == [f"[{last}]"]


async def test_processors_that_do_not_exist_are_an_error(supervisor: Supervisor, build: Builder) -> None:
    with pytest.raises(StartError, match=r"cannot be bound to processors \[4000\]: Invalid argument"):
        await supervisor.spawn([replace(build("true"), cpus=frozenset({4000}))])


async def test_it_leads_a_session_and_a_group_under_the_fork_server(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    script = "import os; print(os.getpid(), os.getsid(0), os.getpgrp(), os.getppid())"
    [child] = await supervisor.spawn([build.python(script, stdout=out.sink())])
    await child.drained
    assert out.lines == [f"{child.pid} {child.pid} {child.group} {supervisor.server_pid}"]


async def test_a_supervisor_from_begin_starts_workers_when_its_fork_server_is_ready(build: Builder) -> None:
    supervisor = Supervisor.begin()
    try:
        [child] = await supervisor.spawn([build("true")])
        assert (await child.exit).code == 0
    finally:
        await supervisor.close()


async def test_a_supervisor_from_begin_can_be_closed_at_once(build: Builder) -> None:
    supervisor = Supervisor.begin()
    await supervisor.close()
    with pytest.raises(SupervisorError, match="closed"):
        await supervisor.spawn([build("true")])


@pytest.fixture
def inheritable_fd() -> Iterator[int]:
    """A descriptor of the agent that an exec would inherit."""
    fd = os.open("/etc", os.O_RDONLY)
    os.set_inheritable(fd, True)
    yield fd
    os.close(fd)


_LIST_DESCRIPTORS = """
import json, os
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try: fds[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError: pass
print(json.dumps(fds))
"""


@pytest.mark.usefixtures("inheritable_fd")
async def test_it_has_only_descriptors_0_1_2_and_stdin_is_null(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    listing = build.python(_LIST_DESCRIPTORS, stdout=out.sink(), stderr=Null())
    children = await supervisor.spawn([listing, listing])
    await asyncio.gather(*(child.drained for child in children))
    for line in out.lines:
        fds = json.loads(line)
        assert fds.keys() == {"0", "1", "2"}
        assert fds["0"] == fds["2"] == os.devnull


@pytest.fixture
def odd_signals() -> Iterator[None]:
    """Make the agent ignore and block signals, as under nohup."""
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGHUP, hangup)


@pytest.mark.usefixtures("odd_signals")
async def test_all_signals_have_their_default_and_none_is_blocked(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("cat", "/proc/self/status", stdout=out.sink())])
    await child.drained
    # The C library reserves 32 and 33, ignores them in processes of posix_spawn (as make starts its recipes), and
    # prevents a reset.
    settable = ~(1 << 31 | 1 << 32)
    masks = {
        line[:6]: int(line.split()[1], 16) & settable
        for line in out.lines
        if line.startswith(("SigBlk", "SigIgn", "SigCgt"))
    }
    assert masks == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


async def test_it_starts_in_its_working_directory(supervisor: Supervisor, build: Builder, tmp_path: Path) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("pwd", cwd=str(tmp_path), stdout=out.sink())])
    await child.drained
    assert out.lines == [str(tmp_path)]


async def test_a_relative_command_is_found_from_its_working_directory(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\nexit 5\n")
    script.chmod(0o755)
    [child] = await supervisor.spawn([build("./run.sh", cwd=str(tmp_path))])
    assert await sentence(child) == "exited with code 5"


async def test_an_inherited_stream_is_the_agents_own(
    supervisor: Supervisor, build: Builder, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "echo out; echo err >&2"
    [child] = await supervisor.spawn([build("sh", "-c", script, stdout=Inherit(), stderr=Inherit())])
    await child.drained
    assert capfd.readouterr() == ("out\n", "err\n")


async def test_a_file_is_appended_to(supervisor: Supervisor, build: Builder, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    [child] = await supervisor.spawn(
        [build("sh", "-c", "echo 1; echo 2 >&2", stdout=FileSink(log), stderr=FileSink(log))]
    )
    await child.drained
    assert log.read_text() == "before\n1\n2\n"


async def test_sixty_four_start_at_once(supervisor: Supervisor, build: Builder) -> None:
    children = await supervisor.spawn([build("/bin/true") for _ in range(64)])
    ends = await asyncio.gather(*(child.exit for child in children))
    assert [end.code for end in ends] == [0] * 64
    assert len({child.pid for child in children}) == 64


async def test_large_environments_arrive_in_every_worker(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    env = build.env | {f"LARGE_{n}": "x" * 1000 for n in range(50)}
    script = "echo $((${#LARGE_0} + ${#LARGE_49}))"
    children = await supervisor.spawn([build("sh", "-c", script, env=env, stdout=out.sink()) for _ in range(64)])
    await asyncio.gather(*(child.drained for child in children))
    assert out.lines == ["2000"] * 64
