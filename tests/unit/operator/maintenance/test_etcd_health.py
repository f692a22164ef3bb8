"""A single failed probe is no outage: each job's status would show it and its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import KeyValue
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from testing.waiting import aeventually


class Flaky(InMemoryEtcd):
    """An etcd that does not answer a number of reads."""

    def __init__(self) -> None:
        super().__init__(InMemoryStore())
        self.failing = 0
        self.reads = 0

    async def get(self, key: str) -> KeyValue | None:
        self.reads += 1
        if self.failing:
            self.failing -= 1
            raise Unavailable("no answer")
        return await super().get(key)


class Watched:
    """The health of an etcd, and the troubles that it reported."""

    def __init__(self) -> None:
        self.etcd = Flaky()
        self.reported: list[str] = []
        self.health = EtcdHealth(self.etcd, lambda: self.reported.append(self.health.trouble), confirm_s=0.0)

    async def probe(self, probes: int) -> None:
        """Wait for that many more probes."""
        wanted = self.etcd.reads + probes
        while self.etcd.reads < wanted:
            self.health.check_now()
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    task = asyncio.create_task(made.health.run())
    try:
        await aeventually(lambda: made.etcd.reads, what="a first probe")
        yield made
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_one_failed_probe_is_not_reported() -> None:
    async with watched() as made:
        made.etcd.failing = 1
        await made.probe(4)
        assert (made.reported, made.health.trouble) == ([], "")


async def test_two_consecutive_failures_are_an_outage_and_the_first_answer_ends_it() -> None:
    async with watched() as made:
        made.etcd.failing = 2
        await made.probe(4)
        await aeventually(lambda: len(made.reported) == 2, what="beginning and end")
        assert made.reported == ["etcd does not answer: no answer", ""]
