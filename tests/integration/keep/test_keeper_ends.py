"""A keeper ends with its agent, and an agent goes on without a keeper."""

import asyncio
import contextlib
import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.keeper.errors import KeeperError
from testing.waiting import aeventually, eventually
from tests.integration.keep.keepers import WatchedClient, keeper, wait_until_held
from tests.integration.keep.parts import FILES, contents, part_of, publish

_AGENT = """
import asyncio, sys
from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.messages import OpenRequest

async def main():
    client = KeeperClient(OpenRequest(sys.argv[1], "/jobs/a", "run1"))
    await client.start()
    print(client.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def agent(keep_dir: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a process that has a keeper, and prints its process id."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    command = [sys.executable, "-c", _AGENT, str(keep_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_a_keeper_ends_with_its_agent_even_if_it_is_stopped(agent: "subprocess.Popen[str]", is_stopped: bool) -> None:  # noqa: FBT001
    assert agent.stdout is not None
    found = psutil.Process(int(agent.stdout.readline()))
    if is_stopped:
        found.suspend()
    agent.kill()
    eventually(lambda: not found.is_running() or found.status() == psutil.STATUS_ZOMBIE, what="the keeper's end")


async def test_an_agent_without_a_usable_volume_goes_on_and_keeps_steps_again_later(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await wait_until_held(client, part_of(5))
        known = client.holdings
        away = move_away(keep_dir)
        os.kill(client.pid or 0, signal.SIGKILL)
        await aeventually(lambda: any("steps are not kept at present" in notice for notice in client.notices))
        assert await client.seal() == known
        move_back(keep_dir, away)
        assert contents(await restore(client)) == FILES


def move_away(keep_dir: Path) -> Path:
    """Put a file in the place of a volume; return where the volume is."""
    away = keep_dir.rename(keep_dir.with_name("away"))
    keep_dir.touch()
    return away


def move_back(keep_dir: Path, away: Path) -> None:
    keep_dir.unlink()
    away.rename(keep_dir)


async def restore(client: WatchedClient) -> Path:
    """Return where the step is restored, as soon as a keeper can do it."""
    found: list[Path] = []

    async def is_restored() -> bool:
        try:
            found.append(await client.restore(part_of(5).step))
        except KeeperError:
            return False
        return True

    has_restored: bool = await aeventually(is_restored, what="step 5 is restored")
    assert has_restored
    return found[0]


async def test_a_keeper_that_ends_at_its_start_is_replaced(keep_dir: Path) -> None:
    client = WatchedClient(keep_dir)
    start = asyncio.create_task(client.start())
    await asyncio.sleep(0)  # its process runs now, and has not answered
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    await start
    try:
        publish(await client.begin(), "step-5")
        await wait_until_held(client, part_of(5))
        assert client.restarts >= 1
    finally:
        await client.close()


@contextlib.contextmanager
def one_descriptor_left() -> Iterator[None]:
    """Let this process open one more file, and no second one."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, limits[1]))
    os.close(lowest)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_an_agent_without_descriptors_goes_on_and_has_a_keeper_again_when_there_are_some(
    keep_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = WatchedClient(keep_dir)
    try:
        with one_descriptor_left():
            await client.start()
            await aeventually(lambda: caplog.text.count("Too many open files; the agent tries again") >= 3)
        publish(await client.begin(), "step-5")
        await wait_until_held(client, part_of(5))
    finally:
        await client.close()


@pytest.mark.parametrize("end", ["is noticed", "is sealed"])
async def test_a_step_for_which_a_keeper_lacks_descriptors_is_taken_by_the_next_one(keep_dir: Path, end: str) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        assert client.pid is not None
        let_open_no_file(client.pid)
        publish(incoming, "step-5")
        if end == "is sealed":
            assert part_of(5).step in await client.seal()
        else:
            await wait_until_held(client, part_of(5))
        assert contents(await restore(client)) == FILES


def let_open_no_file(pid: int) -> None:
    """Let another process open no further file."""
    used = {int(path.name) for path in Path("/proc", str(pid), "fd").iterdir()}
    lowest = next(number for number in itertools.count() if number not in used)
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest, hard))
