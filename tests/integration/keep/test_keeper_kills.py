"""A keeper is killed a hundred times in two tests, while a script publishes: nothing is torn, and nothing is lost."""

import os
import random
import signal
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest
from testing.waiting import aeventually
from tests.integration.keep.keepers import RUN, WatchedClient, keeper, wait_until_held
from tests.integration.keep.parts import LINEAGE, contents, part_of, publish

KILLS = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("between", [True, False], ids=["between takes", "during takes"])
async def test_a_keeper_may_be_killed_at_any_time(keep_dir: Path, between: bool) -> None:  # noqa: FBT001
    rng = random.Random(7)
    steps = {number: {f"{each}": rng.randbytes(rng.randrange(3000)) for each in range(5)} for number in range(KILLS)}
    async with keeper(keep_dir) as client:
        incoming = await client.begin_round(BeginRequest(RUN, LINEAGE))  # nothing is dropped: no workers have started
        for number, files in steps.items():
            pid = client.pid or 0
            publish(incoming, f"step-{number}", files)
            if between:
                await wait_until_held(client, part_of(number))
            else:
                spin(rng.randrange(20_000))
            os.kill(pid, signal.SIGKILL)
            await wait_for_next(client, pid)
        await client.seal()
        await aeventually(lambda: len(client.holdings) == KILLS, what="all steps held")
        assert client.restarts == KILLS
        for number, files in steps.items():
            assert contents(await client.restore(part_of(number).step)) == files
        assert client.notices == []


async def wait_for_next(client: WatchedClient, pid: int) -> None:
    await aeventually(lambda: client.pid not in {None, pid}, what="the next keeper")


def spin(times: int) -> None:
    """Let a little time pass that differs each time, so that the keeper is met at another point."""
    for _ in range(times):
        pass
