"""The operator's view of a real etcd to which very many agents report: it hears of them together, and of all."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from elasticjob_api.records import NodeReport, WorkerReport, WorkerState, encode
from elasticjob_etcd.interface import PagedEtcd, Put, Txn
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.model.job_key import JobKey
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7, cpu_percent=1.0, memory_bytes=1)
REPORT = NodeReport(pod="j-0-a", pod_uid="u", round=1)
AGENTS = 10


class Told:
    """A rendezvous of a cluster of its own, with one job of ten agents, and what it told of when."""

    def __init__(self, etcd: PagedEtcd) -> None:
        self._etcd = etcd
        self._time_ns = itertools.count(1)
        self.key = JobKey("n", "j", "uid")
        self.cluster = uuid4().hex
        self.revisions: list[int] = []
        """Up to which it had come whenever it told of reports."""
        self.news = 0
        self.rendezvous = RendezvousInformer(
            etcd,
            self.cluster,
            on_change=self._changed,
            on_progress=lambda _: self.revisions.append(self.rendezvous.revision),
            on_listed=lambda: None,
        )

    def _changed(self, _: JobKey) -> None:
        self.news += 1

    async def all_report(self, state: WorkerState = WorkerState.HEALTHY) -> None:
        """Each agent by itself."""
        worker = replace(WORKER, state=state)
        report = replace(REPORT, workers=(worker,), time_ns=next(self._time_ns))
        await asyncio.gather(*(self._write(slot, report) for slot in range(AGENTS)))

    async def _write(self, slot: int, report: NodeReport) -> None:
        put = Put(self.key.keys(self.cluster).report(slot, f"{slot:08x}"), encode(report))
        await self._etcd.txn(Txn((), (put,)))

    @property
    def together(self) -> bool:
        """At least once several rounds of reports came as one."""
        return any(after - before > 2 * AGENTS for before, after in itertools.pairwise(self.revisions))

    @property
    def states(self) -> list[WorkerState]:
        return [report.workers[0].state for report in self.rendezvous.view(self.key).reports.values()]


@pytest.fixture
async def told(etcd: PagedEtcd) -> AsyncIterator[Told]:
    """It follows."""
    told = Told(etcd)
    task = asyncio.create_task(told.rendezvous.run())
    await aeventually(lambda: told.rendezvous.listed, what="a first list")
    yield told
    task.cancel()
    await asyncio.wait({task})


async def test_many_reports_that_say_nothing_new_are_told_together_and_then_news_is_told(told: Told) -> None:
    async with asyncio.timeout(30):
        while not told.together:
            await told.all_report()
    news = told.news
    await told.all_report(WorkerState.FAILED)
    await aeventually(lambda: told.states == [WorkerState.FAILED] * AGENTS, what="the news")
    assert told.news > news
