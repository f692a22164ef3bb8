"""Many lives in one agent: no descriptor, process, zombie or thread stays behind."""

import threading
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import CommandNotFound, Supervisor
from testing.processes.census import Census
from tests.integration.supervisor.commands import Builder, Caught
from tests.integration.supervisor.trees import script


def _held(pid: int | str) -> list[str]:
    return sorted(path.name for path in Path(f"/proc/{pid}/fd").iterdir())


async def test_fifty_rounds_leave_nothing_behind(supervisor: Supervisor, build: Builder, census: Census) -> None:
    out = Caught()
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
            set(_held("self")),
            set(_held(supervisor.server_pid)),
            {thread.name for thread in threading.enumerate()},
        ]
        before = before or held
        # What another test of this process still held may go meanwhile; nothing may come.
        assert [now - then for now, then in zip(held, before, strict=True)] == [set(), set(), set()]
        assert census.found(besides=supervisor.server_pid) == []
        assert not supervisor._children


async def test_a_closed_supervisor_holds_nothing(census: Census, build: Builder) -> None:
    before = _held("self")
    for _ in range(5):
        supervisor = await Supervisor.create()
        await supervisor.spawn([build("sleep", "1000", stdout=Caught().sink())])
        await supervisor.close()
    assert set(_held("self")) <= set(before)
    assert census.found() == []


async def test_a_failed_start_holds_nothing_in_the_starter(supervisor: Supervisor, build: Builder) -> None:
    before = _held(supervisor.server_pid)
    for _ in range(10):
        with pytest.raises(CommandNotFound):
            await supervisor.spawn([build("none")])
    assert _held(supervisor.server_pid) == before
