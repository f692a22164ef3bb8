"""Workers that a zygote has forked: their ends and all that they have from the kernel are those of executed workers."""

import asyncio
import contextlib
import errno
import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.supervisor import Child, FileSink, StartError, Supervisor
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from testing.waiting import aeventually, scaled
from tests.integration.supervisor.commands import Builder, RecordingConsole, take_descriptors
from tests.integration.supervisor.warm_spawn import fork_ahead, spawn_warm

_END = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
number = int(os.environ["END"])
os._exit(number) if number >= 0 else os.kill(os.getpid(), -number)
signal.pause()
"""


async def _ends(supervisor: Supervisor, build: Builder, numbers: list[int]) -> list[int]:
    """Return the codes of workers that end by these exit codes, or by these signals as negative numbers."""
    commands = [build.python_with_site(_END, env={**build.env, "END": str(number)}) for number in numbers]
    workers = await fork_ahead(supervisor, commands[0], len(commands))
    children = await supervisor.spawn(commands, workers)
    assert all(child.is_warm for child in children)
    return [(await child.exit).code for child in children]


async def test_exit_codes_arrive(supervisor: Supervisor, build: Builder) -> None:
    codes = [0, 1, 2, 3, 126, 127, 128, 254, 255]
    assert await _ends(supervisor, build, codes) == codes


@pytest.mark.usefixtures("in_own_folder")
async def test_deadly_signals_arrive(supervisor: Supervisor, build: Builder) -> None:
    names = ("HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "SEGV", "TERM", "USR1", "XCPU")
    signals = [-int(signal.Signals[f"SIG{name}"]) for name in names]
    assert await _ends(supervisor, build, signals) == signals


@pytest.fixture
def in_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in a folder of the test, where the kernel may write core dumps."""
    monkeypatch.chdir(tmp_path)


_FACTS = """
import json, os, resource, signal, sys, ctypes, threading
signum = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signum))  # PR_GET_PDEATHSIG
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
names = ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs",
         "Seccomp", "Umask", "Cpus_allowed", "CoreDumping", "THP_enabled", "Threads")
print("facts", json.dumps({
    "parent": os.getppid(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "death signal": signum.value,
    "status": {name: status.get(name) for name in names},
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "scheduler": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
    "processors": sorted(os.sched_getaffinity(0)),
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "oom": open("/proc/self/oom_score_adj").read(),
    "dump": open("/proc/self/coredump_filter").read(),
    "cgroup": open("/proc/self/cgroup").read(),
    "argv": [sys.argv, sys.orig_argv],
    "threads": [thread.name for thread in threading.enumerate()],
    "native": threading.main_thread().native_id == os.getpid(),
    "descriptors": [os.path.realpath("/proc/self/fd/0"), sorted(set(map(int, os.listdir("/proc/self/fd"))) - {3})],
    "command": open("/proc/self/cmdline").read(),
    "name": open("/proc/self/comm").read(),
}), flush=True)
"""


async def _facts(child: Child, out: RecordingConsole) -> dict[str, Any]:
    await child.exit
    await aeventually(lambda: any(line.startswith("facts ") for line in out.lines), what=f"facts, {out.data!r}")
    [line] = [line for line in out.lines if line.startswith("facts ")]
    facts: dict[str, Any] = json.loads(line.removeprefix("facts "))
    return facts


async def test_all_that_the_kernel_gives_a_worker_is_the_same(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    outs = RecordingConsole(), RecordingConsole()
    cold, warm = (
        build.python_with_site(
            _FACTS,
            "--epochs=1",
            stdout=out.sink(),
            stderr=out.sink(),
            cwd=str(tmp_path),
            cpus=frozenset({min(os.sched_getaffinity(0))}),
            env={**build.env, "A": "a=b", "EMPTY": "", "NOT_UTF8": "\udcff"},
        )
        for out in outs
    )
    [cold_child] = await supervisor.spawn([cold])
    [warm_child] = await spawn_warm(supervisor, [warm])
    executed, forked = await _facts(cold_child, outs[0]), await _facts(warm_child, outs[1])
    assert forked == executed
    assert forked["parent"] == supervisor.server_pid
    assert forked["death signal"] == signal.SIGKILL


@pytest.mark.parametrize("field", [{"cwd": "/no-such-folder"}, {"cpus": frozenset({4095})}])
async def test_an_error_of_the_setup_is_that_of_an_executed_worker(
    supervisor: Supervisor, build: Builder, field: dict[str, Any]
) -> None:
    command = build.python_with_site("pass", **field)
    with pytest.raises(StartError) as executed:
        await supervisor.spawn([command])
    [worker] = await fork_ahead(supervisor, build.python_with_site("pass"), 1)
    with pytest.raises(StartError) as forked:
        await supervisor.spawn([command], [worker])
    assert str(forked.value) == str(executed.value)


async def test_a_log_that_cannot_be_opened_leaves_no_worker_behind(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    command = build.python_with_site("pass")
    [worker] = await fork_ahead(supervisor, command, 1)
    unwritable = replace(command, stdout=FileSink(tmp_path / "no" / "x"))
    with pytest.raises(StartError, match="cannot open"):
        await supervisor.spawn([unwritable], [worker])
    await aeventually(lambda: not Path(f"/proc/{worker.pid}").exists(), what="the end of the worker")
    assert supervisor._preforked == {}


async def test_a_fork_server_does_not_wait_for_a_socket_that_outlives_its_worker(
    supervisor: Supervisor, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zygote that is stopped right after its fork keeps the socket of the worker open."""
    with contextlib.ExitStack() as kept:
        adopt = supervisor.adopt

        async def adopt_and_keep(count: int, send: Callable[[Sequence[socket.socket]], None]) -> list[PreforkedWorker]:
            def keep_and_send(ends: Sequence[socket.socket]) -> None:
                for end in ends:
                    kept.enter_context(end.dup())
                send(ends)

            return await adopt(count, keep_and_send)

        monkeypatch.setattr(supervisor, "adopt", adopt_and_keep)
        [worker] = await fork_ahead(supervisor, build.python_with_site(""), 1)
        server = supervisor.server_pid
        os.kill(worker.pid, signal.SIGKILL)
        await aeventually(lambda: not worker.is_alive, what="the end of the worker")
        [child] = await supervisor.spawn([build("true")])
        assert (await child.exit).code == 0
        assert supervisor.server_pid == server


def _forget(ends: Sequence[socket.socket]) -> None:
    """Be a zygote that forks nothing."""


async def test_a_worker_that_the_fork_server_cannot_take_over_is_lost_at_once(supervisor: Supervisor) -> None:
    take_descriptors(supervisor.server_pid)
    [worker] = await supervisor.adopt(1, _forget)
    async with asyncio.timeout(scaled(30)):
        assert not await worker.registered
    assert worker.loss == os.strerror(errno.EMFILE)
    assert supervisor._preforked == {}


_CORE = """
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
os.kill(os.getpid(), signal.SIGQUIT)
"""


_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern").read_text()


async def test_a_core_dump_is_that_of_an_executed_worker(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    folders = tmp_path / "cold", tmp_path / "warm"
    for folder in folders:
        folder.mkdir()
    cold, warm = (build.python_with_site(_CORE, cwd=str(folder)) for folder in folders)
    [executed] = await supervisor.spawn([cold])
    [forked] = await spawn_warm(supervisor, [warm])
    assert (await forked.exit).sentence == (await executed.exit).sentence
    files = [[each.name.rstrip("0123456789") for each in folder.iterdir()] for folder in folders]
    assert files[0] == files[1]
    if resource.getrlimit(resource.RLIMIT_CORE)[1] and _CORE_PATTERN[:1].isalpha():
        assert forked.exit.result().sentence.endswith("(core dumped)")
        assert files[0]
