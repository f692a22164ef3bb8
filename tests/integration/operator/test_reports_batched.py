"""The operator's view of a real etcd with very many samples: they are delivered in batches, and no report is late."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from elasticjob_api.records import NodeReport, NodeSamples, WorkerReport, WorkerState, encode
from elasticjob_etcd.interface import PagedEtcd, Put, Txn
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.model.job_key import JobKey
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7)
REPORT = NodeReport(pod="j-0-a", pod_uid="u", round=1)
AGENTS = 10


class Changes:
    """An informer with one job of ten agents in a cluster of its own, and the times of its changes."""

    def __init__(self, etcd: PagedEtcd) -> None:
        self._etcd = etcd
        self._time_ns = itertools.count(1)
        self.key = JobKey("n", "j", "uid")
        self.cluster = uuid4().hex
        self.revisions: list[int] = []
        """The revisions of the view at each notice of samples."""
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

    async def all_report(self, state: WorkerState) -> None:
        """Write a report of each agent, one by one."""
        value, keys = encode(replace(REPORT, workers=(replace(WORKER, state=state),))), self.key.keys(self.cluster)
        await self._write(*(Put(keys.report(slot, f"{slot:08x}"), value) for slot in range(AGENTS)))

    async def all_sample(self) -> None:
        """Write samples of each agent, one by one."""
        value, keys = encode(NodeSamples(round=1, time_ns=next(self._time_ns))), self.key.keys(self.cluster)
        await self._write(*(Put(keys.samples(slot, f"{slot:08x}"), value) for slot in range(AGENTS)))

    async def _write(self, *puts: Put) -> None:
        await asyncio.gather(*(self._etcd.txn(Txn((), (put,))) for put in puts))

    @property
    def together(self) -> bool:
        """Return whether several rounds of samples came in one batch."""
        return any(after - before > 2 * AGENTS for before, after in itertools.pairwise(self.revisions))

    @property
    def states(self) -> list[WorkerState]:
        return [report.workers[0].state for report in self.rendezvous.view(self.key).reports.values()]


@pytest.fixture
async def changes(etcd: PagedEtcd) -> AsyncIterator[Changes]:
    """Return an informer that follows etcd."""
    changes = Changes(etcd)
    task = asyncio.create_task(changes.rendezvous.run())
    await aeventually(lambda: changes.rendezvous.listed, what="a first list")
    yield changes
    task.cancel()
    await asyncio.wait({task})


async def test_samples_are_batched_and_a_change_is_delivered_at_once(changes: Changes) -> None:
    async with asyncio.timeout(30):
        while not changes.together:
            await changes.all_sample()
    news = changes.news
    await changes.all_report(WorkerState.FAILED)
    await aeventually(lambda: changes.states == [WorkerState.FAILED] * AGENTS, what="the news")
    assert changes.news > news
