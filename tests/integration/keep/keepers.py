"""Real keepers of real volumes, as an agent has them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import History, KeptStep, Lineage
from testing.waiting import aeventually
from tests.integration.keep.parts import LINEAGE

JOB = "/jobs/a"
RUN = "1a2b3c4d"


class WatchedClient(KeeperClient):
    """A client that collects what its keeper reports."""

    def __init__(
        self, keep_dir: Path, *, first_pause_s: float = 0.01, last_pause_s: float = 0.05, **options: Any
    ) -> None:
        self.notices: list[str] = []
        volume = OpenRequest(str(keep_dir), JOB, RUN, **options)
        super().__init__(volume, on_notice=self.notices.append, first_pause_s=first_pause_s, last_pause_s=last_pause_s)

    async def begin(self, lineage: Lineage = LINEAGE, *, restored: KeptStep | None = None, history: str = "") -> Path:
        """Begin a round and start its workers."""
        incoming = await self.begin_round(BeginRequest(RUN, lineage, History.parse(history), restored))
        self.report_start()
        return incoming


@asynccontextmanager
async def keeper(keep_dir: Path, **options: Any) -> AsyncIterator[WatchedClient]:
    """Run a keeper for this volume."""
    client = WatchedClient(keep_dir, **options)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def wait_until_held(client: WatchedClient, part: KeptPart) -> None:
    """Return when the client knows that this part is held."""
    await aeventually(lambda: part.index in client.holdings.get(part.step, ()), what=f"{part} is held")


async def wait_until_taken(client: WatchedClient, count: int) -> None:
    """Return when the keeper has taken so many parts."""

    async def is_taken() -> bool:
        return (await client.status()).taken == count

    has_taken: bool = await aeventually(is_taken, what=f"{count} parts are taken")
    assert has_taken
