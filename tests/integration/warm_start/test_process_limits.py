"""Limits of the kernel that a zygote or its workers reach: the script runs once a rank, with a reason."""

import asyncio
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.host.cgroup import CGROUP, OWN_CGROUPS, folders
from testing.waiting import aeventually
from tests.integration.warm_start import limited
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


async def _forked(node: WarmNode) -> None:
    node.script()
    await node.start()
    await node.ran()
    await node.forked_ahead()


@pytest.fixture
def full() -> Iterator[Callable[[int], None]]:
    """Return a function that puts a process into a cgroup in which it may start no other one."""
    own = next(iter(folders("pids", CGROUP, OWN_CGROUPS)), None)
    if own is None or os.geteuid() != 0:
        pytest.skip("only root may make a cgroup of processes")
    folder = own / f"elasticjob-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of processes can be made here: {error}")

    def put(pid: int) -> None:
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "pids.max").write_text("1")

    yield put
    for pid in (folder / "cgroup.procs").read_text().split():
        (own / "cgroup.procs").write_text(pid)
    folder.rmdir()


async def test_a_zygote_that_may_fork_no_more_is_a_reason_until_it_may(
    node: WarmNode, sentences: Sentences, full: Callable[[int], None]
) -> None:
    await _forked(node)
    zygote = node.zygote()
    full(zygote)
    assert await node.restart() == [True, True]
    await node.ran()
    await node.settled()
    assert await node.restart() == [False, False]
    await node.ran()
    await node.settled()
    assert sentences() == ["not warm: the zygote cannot fork: Resource temporarily unavailable"]
    assert b"Traceback" not in node.preload.data
    assert node.zygote() == zygote
    [folder] = folders("pids", CGROUP, OWN_CGROUPS)[:1]
    (folder / "cgroup.procs").write_text(str(zygote))
    assert await node.restart() == [False, False]
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()


async def test_a_waiting_worker_without_numbers_for_descriptors_is_a_cold_start(
    node: WarmNode, sentences: Sentences
) -> None:
    await _forked(node)
    await node.stop()
    for pid in node.waiting():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, 4))
    assert await node.start() == [False, False]
    await node.ran()
    assert sentences() == ["not warm: it has too few numbers left for the descriptors of its command"]
    assert b"Traceback" not in node.preload.data


async def test_a_zygote_without_numbers_for_descriptors_is_a_cold_start(node: WarmNode, sentences: Sentences) -> None:
    await _forked(node)
    resource.prlimit(node.zygote(), resource.RLIMIT_NOFILE, (4, 4))
    assert await node.restart() == [True, True]
    await node.ran()
    await node.settled()
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences() == ["not warm: a worker that was forked ahead: it has ended"]
    assert b"Traceback" not in node.preload.data


@pytest.mark.parametrize("start", ["cold", "warm"])
async def test_a_worker_that_aborts_dumps_core_in_its_folder(node: WarmNode, start: str) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()  # noqa: ASYNC240
    if pattern != "core":
        pytest.skip(f"the kernel writes core dumps elsewhere: {pattern}")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("core dumps are forbidden here")
    node.script()
    await node.start()
    await node.ran()
    if start == "warm":
        await node.forked_ahead()
        assert await node.restart() == [True, True]
        await node.ran()
    assert _cores(node) == []
    resource.prlimit(node.children[0].pid, resource.RLIMIT_CORE, (hard, hard))
    os.kill(node.children[0].pid, signal.SIGABRT)
    end = await node.children[0].exit
    assert (end.code, end.core_dumped) == (-signal.SIGABRT, True)
    await aeventually(lambda: len(_cores(node)) == 1, what="a core dump")


def _cores(node: WarmNode) -> list[Path]:
    return sorted(node.work.glob("core*"))


async def test_a_long_command_is_a_reason(node: WarmNode, sentences: Sentences) -> None:
    script = node.script()
    words = [*node.argv(), *["x" * 1000] * 70]
    await node.start(*words)
    await node.ran()
    for _ in range(2):
        assert await node.restart(*words) == [False, False]
        await node.ran()
    assert sentences() == ["not warm: the command is longer than 32 KiB"]
    assert script.exists()


@pytest.mark.parametrize("character", ["x", "é", "字", "\udcff"])
async def test_the_longest_command_is_warm(node: WarmNode, character: str) -> None:
    node.script()
    size = (30_000 - len(ascii(node.argv()))) // len(ascii(character)[1:-1])
    words = [*node.argv(), character * size]
    await node.start(*words)
    await node.ran()
    await node.forked_ahead()
    assert await node.restart(*words) == [True, True]
    await node.ran()


def test_a_user_who_may_start_no_more_processes_starts_cold_or_is_told_why(tmp_path: Path) -> None:
    """RLIMIT_NPROC does not count for root, so this runs as another user."""
    user, drop = secrets.randbelow(10_000) + 1_000_000, "-all,+dac_override"  # the user may read the files of the tests
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        pytest.skip("only root may become another user, by setpriv")
    os.chown(tmp_path, user, user)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    change = [f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--inh-caps={drop}", f"--ambient-caps={drop}"]
    command = [setpriv, *change, sys.executable, "-m", limited.__name__, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    no_fork = "cold 2 the zygote cannot fork: Resource temporarily unavailable"
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (
        [
            "cold 2 the first workers record their imports",
            "warm 2 ",
            no_fork,
            "error rank 0: cannot be started (fork): Resource temporarily unavailable 0",
            no_fork,
            "warm 2 ",
        ],
        "",
        0,
    )


# --- stopped processes -----------------------------------------------------------------------------------------------


def _stop_for(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(seconds, os.kill, pid, signal.SIGCONT)


async def test_a_fork_server_that_is_stopped_for_a_while_runs_each_worker_once(node: WarmNode) -> None:
    """While it is stopped, nothing starts or ends: in each phase of three rounds."""
    node.script()
    for expected in ([False, False], [True, True], [True, True]):
        await node.stop()
        _stop_for(node.supervisor.server_pid, 0.3)  # takes up the request later
        assert await node.start() == expected
        _stop_for(node.supervisor.server_pid, 0.3)  # builds, forks, adopts
        await node.ran()
        await node.forked_ahead()


async def test_a_zygote_that_is_stopped_for_a_while_runs_each_worker_once(node: WarmNode) -> None:
    node.script()
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._zygote.ready or _zygotes(node), what="a zygote")
    for pid in _zygotes(node):
        _stop_for(pid, 0.5)  # during its imports, or as it forks
    await node.forked_ahead()
    _stop_for(node.zygote(), 0.5)
    assert await node.restart() == [True, True]
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()


def _zygotes(node: WarmNode) -> list[int]:
    children = [child for child in node.supervisor._children.values() if child.name.startswith("zygote")]
    return [child.pid for child in children if child.pid and not child.ended]
