"""The digits example publishes checkpoints and restores them, with a real keeper in the place of the agent."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from elasticjob_api.kept_steps import KeptStep, Lineage
from tests.integration.examples.launcher import PER_EPOCH, QUICK, SLOW, Launcher, Round
from tests.integration.keep.conftest import keep_dir as keep_dir  # noqa: PLC0414 - a fixture
from tests.integration.keep.keepers import WatchedClient, keeper


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Launcher]:
    """Return a job without a round."""
    made = Launcher(tmp_path)
    yield made
    made.stop()


@pytest.fixture
async def client(keep_dir: Path) -> AsyncIterator[WatchedClient]:
    """Return the client of a keeper."""
    async with keeper(keep_dir) as made:
        yield made


async def begin(client: WatchedClient, round_: int, restored: KeptStep | None = None) -> dict[str, str]:
    """Begin a round; return the variables that an agent sets for it."""
    history = "" if restored is None else f"{restored.lineage}.{restored.number}"
    incoming = await client.begin(Lineage(round_, f"round{round_}"), restored=restored, history=history)
    kept = {} if restored is None else {"ELASTICJOB_KEPT": str(await client.restore(restored))}
    return {"ELASTICJOB_KEEP": str(incoming), **kept}


async def seal_newest(client: WatchedClient) -> KeptStep:
    """End the round; return the newest step that is held."""
    return max(await client.seal())


def run_into(epoch: int, job: Launcher, extra: dict[str, str]) -> None:
    """Kill a worker in this epoch of the next round."""
    started = job.start([0], arguments=SLOW, extra=extra)
    job.until_step(0, (epoch - 1) * PER_EPOCH + 1)
    started.kill(1)
    started.wait()


def finish(job: Launcher, extra: dict[str, str]) -> Round:
    """Run the next round to its end."""
    started = job.start([0], arguments=QUICK, extra=extra)
    assert set(started.wait()) == {0}, started.output()
    return started


async def test_a_kept_checkpoint_takes_the_place_of_those_that_are_damaged_on_disk(
    job: Launcher, client: WatchedClient
) -> None:
    await asyncio.to_thread(run_into, 3, job, await begin(client, 1))
    kept = await seal_newest(client)
    assert kept.number >= 2 * PER_EPOCH
    for path in job.files(0, "*.ckpt"):
        path.write_bytes(b"torn")
    second = await asyncio.to_thread(finish, job, await begin(client, 2, kept))
    assert f"2 workers go on from step {kept.number}\n" in second.output()
    assert [line.rpartition(": ")[2] for line in second.proof()] == ["holds"] * 4
    assert client.notices == []


async def test_a_newer_checkpoint_on_disk_counts(job: Launcher, client: WatchedClient) -> None:
    await asyncio.to_thread(run_into, 2, job, await begin(client, 1))
    kept = await seal_newest(client)
    await asyncio.to_thread(run_into, 4, job, {})
    saved = job.saved_step(0)
    assert saved > kept.number
    third = await asyncio.to_thread(finish, job, await begin(client, 3, kept))
    assert f"2 workers go on from step {saved}\n" in third.output()
