"""Many workers in one agent: no descriptor, process, zombie or thread is left."""

import threading
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import CommandNotFound, Supervisor
from testing.processes.census import Census
from tests.integration.supervisor.commands import Builder, RecordingConsole
from tests.integration.supervisor.trees import script


def _descriptors(pid: int | str) -> list[str]:
    return sorted(path.name for path in Path(f"/proc/{pid}/fd").iterdir())


async def test_fifty_batches_leave_nothing_behind(supervisor: Supervisor, build: Builder, census: Census) -> None:
    out = RecordingConsole()
    batch = [
        build("sh", "-c", "echo $$; sleep 1000 &", stdout=out.sink()),
        build("sleep", "1000", stderr=out.sink()),
        build.python(script("a daemon, forked twice"), "stay", stdout=out.sink()),
    ]
    before: list[set[str]] = []
    for _ in range(50):
        children = await supervisor.spawn(batch)
        await supervisor.stop(children, grace_s=0.01)
        with pytest.raises(CommandNotFound):
            await supervisor.spawn([*batch, build("none")])
        held = [
            set(_descriptors("self")),
            set(_descriptors(supervisor.server_pid)),
            {thread.name for thread in threading.enumerate()},
        ]
        before = before or held
        # Leftovers of other tests of this process may vanish meanwhile; nothing may be added.
        assert [now - then for now, then in zip(held, before, strict=True)] == [set(), set(), set()]
        assert census.found(besides=supervisor.server_pid) == []
        assert not supervisor._children


async def test_a_closed_supervisor_has_no_descriptors(census: Census, build: Builder) -> None:
    before = _descriptors("self")
    for _ in range(5):
        supervisor = await Supervisor.create()
        await supervisor.spawn([build("sleep", "1000", stdout=RecordingConsole().sink())])
        await supervisor.close()
    assert set(_descriptors("self")) <= set(before)
    assert census.found() == []


async def test_a_failed_start_leaves_no_descriptors_in_the_fork_server(supervisor: Supervisor, build: Builder) -> None:
    before = _descriptors(supervisor.server_pid)
    for _ in range(10):
        with pytest.raises(CommandNotFound):
            await supervisor.spawn([build("none")])
    assert _descriptors(supervisor.server_pid) == before
