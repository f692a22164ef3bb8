"""Everything that a worker has started ends with it, and nothing else does."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import Child, Supervisor
from testing.processes.census import Census
from testing.waiting import aeventually, eventually
from tests.integration.supervisor.commands import Builder, TreePipe, sentence
from tests.integration.supervisor.trees import TREES, script
from tests.integration.supervisor.warm_spawn import spawn_warm


@dataclass(frozen=True, slots=True)
class _TreeSpawner:
    """Starts workers and returns when their trees are complete, and their leaders have ended if they are to leave."""

    supervisor: Supervisor
    build: Builder
    tree_pipes: list[TreePipe]
    is_warm: bool
    """Whether the workers are forked from zygotes, instead of executed."""

    async def __call__(self, shape: str, leader: str) -> tuple[Child, TreePipe]:
        tree_pipe = TreePipe()
        self.tree_pipes.append(tree_pipe)
        python = self.build.python_with_site if self.is_warm else self.build.python
        command = python(script(shape), leader, stdout=tree_pipe.sink)
        spawn = spawn_warm(self.supervisor, [command]) if self.is_warm else self.supervisor.spawn([command])
        [child] = await spawn
        await tree_pipe.ready()
        if leader == "leave":
            await child.exit
        return child, tree_pipe


@pytest.fixture(params=["cold", "warm"])
def start_tree(
    request: pytest.FixtureRequest, supervisor: Supervisor, build: Builder, tree_pipes: list[TreePipe]
) -> _TreeSpawner:
    return _TreeSpawner(supervisor, build, tree_pipes, is_warm=request.param == "warm")


@pytest.mark.parametrize("leader", ["stay", "leave"])
@pytest.mark.parametrize("shape", TREES)
async def test_a_stop_leaves_nothing(
    supervisor: Supervisor, start_tree: _TreeSpawner, census: Census, shape: str, leader: str
) -> None:
    child, tree_pipe = await start_tree(shape, leader)
    await supervisor.stop([child], grace_s=0.05)
    assert tree_pipe.is_at_end()
    assert census.found(besides=supervisor.server_pid) == []
    assert not child.wedged


@pytest.mark.parametrize("shape", TREES)
async def test_a_sweep_after_a_normal_end_leaves_nothing(
    supervisor: Supervisor, start_tree: _TreeSpawner, census: Census, shape: str
) -> None:
    child, tree_pipe = await start_tree(shape, "leave")
    await supervisor.sweep([child])
    assert tree_pipe.is_at_end()
    assert census.found(besides=supervisor.server_pid) == []


_KNOWN_BY_SESSION_OR_LINEAGE = ["a child in the same session", "a child in a session of its own", "a stopped child"]


@pytest.mark.parametrize("grace_s", [0, 0.05])
@pytest.mark.parametrize("shape", _KNOWN_BY_SESSION_OR_LINEAGE)
async def test_the_tree_of_one_worker_ends_while_another_lives(
    supervisor: Supervisor, start_tree: _TreeSpawner, shape: str, grace_s: float
) -> None:
    other_child, other_pipe = await start_tree("a daemon, forked twice", "stay")
    child, tree_pipe = await start_tree(shape, "stay")
    await supervisor.stop([child], grace_s=grace_s)
    assert (tree_pipe.is_at_end(), other_pipe.is_at_end(), other_child.ended) == (True, False, False)


async def test_a_daemon_is_not_killed_with_another_worker(supervisor: Supervisor, start_tree: _TreeSpawner) -> None:
    _, other_pipe = await start_tree("a daemon, forked twice", "leave")
    child, _ = await start_tree("a daemon, forked twice", "stay")
    await supervisor.stop([child], grace_s=0.05)
    assert not other_pipe.is_at_end()


async def test_an_orphan_of_unknown_owner_is_killed_with_the_last_worker(
    supervisor: Supervisor, start_tree: _TreeSpawner
) -> None:
    other_child, _ = await start_tree("a child in the same session", "stay")
    ended_child, tree_pipe = await start_tree("a daemon, forked twice", "leave")
    await supervisor.sweep([ended_child])
    assert not other_child.ended
    await supervisor.stop([other_child], grace_s=0)
    assert tree_pipe.is_at_end()


@pytest.fixture
def other() -> Iterator["subprocess.Popen[bytes]"]:
    """A child of the agent that belongs to no supervisor."""
    with subprocess.Popen(["sleep", "1000"]) as other:
        yield other
        other.kill()


async def test_the_callers_other_children_are_not_touched(
    other: "subprocess.Popen[bytes]", supervisor: Supervisor, start_tree: _TreeSpawner
) -> None:
    child, _ = await start_tree("a daemon, forked twice", "stay")
    await supervisor.stop([child], grace_s=0)
    await supervisor.close()
    assert other.poll() is None


_FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freezer() -> Iterator[Path]:
    """Return a control group in which SIGKILL has no effect until it is thawed, as in a hang in the kernel."""
    if not os.access(_FREEZER / "cgroup.procs", os.W_OK):
        pytest.skip("no freezer of control groups version 1 that may be written")
    group = _FREEZER / f"elasticjob-{uuid.uuid4().hex}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    eventually(lambda: not (group / "cgroup.procs").read_text(), what="an empty control group")
    group.rmdir()


@pytest.mark.parametrize("shape", ["a child in the same session", "a child in a session of its own"])
async def test_the_children_of_a_hanging_worker_are_killed_although_it_remains(
    build: Builder, freezer: Path, shape: str
) -> None:
    supervisor = await Supervisor.create(reap_s=0.2)
    [child] = await supervisor.spawn([build.python(script(shape), "stay")])
    below = await aeventually(psutil.Process(child.pid).children)
    (freezer / "cgroup.procs").write_text(str(child.pid))
    (freezer / "freezer.state").write_text("FROZEN")
    await supervisor.stop([child], grace_s=0)
    assert (child.wedged, [each.status() for each in below]) == (True, [psutil.STATUS_ZOMBIE])
    (freezer / "freezer.state").write_text("THAWED")
    assert await sentence(child) == "killed by SIGKILL"
    await supervisor.stop([child], grace_s=0)
    assert not child.wedged
    await supervisor.close()


class _Tracer:
    """Makes a process unreapable: the kernel reports the death to its tracer first, and this one ignores it."""

    _SCRIPT = """
import ctypes, sys
PTRACE_SEIZE = 0x4206
assert ctypes.CDLL(None).ptrace(PTRACE_SEIZE, int(sys.stdin.readline()), 0, 0) == 0
print("seized", flush=True)
sys.stdin.readline()
"""

    def __init__(self) -> None:
        command = ["/usr/bin/env", "python3", "-I", "-S", "-c", self._SCRIPT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seize(self, pid: int) -> None:
        assert self._process.stdin
        assert self._process.stdout
        print(pid, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "seized\n"

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def tracer() -> Iterator[_Tracer]:
    tracer = _Tracer()
    yield tracer
    tracer.end()


async def test_a_worker_that_cannot_be_killed_is_wedged_and_stop_returns(build: Builder, tracer: _Tracer) -> None:
    supervisor = await Supervisor.create(reap_s=0.2)
    stuck, well = await supervisor.spawn([build("sleep", "1000"), build("sleep", "1000")])
    tracer.seize(stuck.pid)
    await supervisor.stop([stuck, well], grace_s=0.1)
    assert [(child.wedged, child.ended) for child in (stuck, well)] == [(True, False), (False, True)]
    tracer.end()
    assert (await stuck.exit).signal_name == "SIGKILL"
    await supervisor.close()
