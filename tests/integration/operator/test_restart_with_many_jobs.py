"""A new operator that applies Services and budgets of many jobs again still handles urgent requests."""

import asyncio

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller import job_snapshots, workqueue
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import name_of
from elasticjob_operator.policy.lifecycle.resync import AT_ONCE, AT_ONCE_EACH
from testing.operator_history import OperatorHistory, manifest

TURNS = AT_ONCE_EACH + 4
JOBS = 2 * TURNS


class Slow(InMemoryCluster):
    """A cluster that answers no apply once it is `slow`."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.waiting: set[str] = set()
        self.creates = True
        """Whether requests to create a pod are answered."""
        self.creating: set[str] = set()
        self.applied: set[str] = set()

    async def apply(self, resource: Resource, body: Object) -> Object:
        if self.slow and resource in {Resource.SERVICE, Resource.DISRUPTION_BUDGET}:
            self.waiting.add(name_of(body))
            await asyncio.Event().wait()
        self.applied.add(name_of(body))
        return await super().apply(resource, body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        if resource is Resource.POD and not self.creates:
            self.creating.add(name_of(body))
            await asyncio.Event().wait()
        return await super().create_strictly(resource, body)


async def test_a_job_is_reconciled_while_services_and_budgets_of_others_are_applied_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workqueue, "MAX_WORKERS_PER_GROUP", TURNS)
    cluster = Slow()
    stages = [OperatorHistory(cluster)]
    stages += [stages[0].second_operator() for _ in range(JOBS - 1)]
    stages[0].start_operator()
    for number, stage in enumerate(stages):
        await stage.apply(manifest(f"j{number}", replicas=1))
    await stages[0].until("all pods", lambda: len(cluster.objects(Resource.POD)) == JOBS)
    await stages[0].stop_operator()
    monkeypatch.setattr(job_snapshots, "resync_in_s", lambda *_, **__: 1e-3)  # for all jobs at the same time
    cluster.slow = True
    stages[0].start_operator()
    try:
        await stages[0].until("applies that wait", lambda: len(cluster.waiting) >= AT_ONCE_EACH)
        spared = next(stage for stage in reversed(stages) if name_of(stage.job) not in cluster.waiting)
        await spared.scale(suspend=True)
        await spared.until("no pod", lambda: not spared.pods())
        assert len(cluster.waiting) == AT_ONCE_EACH
    finally:
        await stages[0].stop_operator()


async def test_a_service_is_applied_again_while_requests_to_create_pods_of_many_jobs_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Slow()
    stage = OperatorHistory(cluster)
    stage.start_operator()
    await stage.apply(manifest("runs", replicas=1))
    await stage.until("its pod", lambda: len(cluster.objects(Resource.POD)) == 1)
    await stage.stop_operator()
    monkeypatch.setattr(job_snapshots, "resync_in_s", lambda *_, **__: 1.0)  # so that the other jobs come first
    cluster.creates = False
    cluster.applied.clear()
    for number in range(AT_ONCE):
        await stage.second_operator().apply(manifest(f"j{number}", replicas=1))
    stage.start_operator()
    try:
        await stage.until("creations that hang", lambda: len(cluster.creating) == AT_ONCE)
        await stage.until("its Service", lambda: "runs" in cluster.applied)
    finally:
        await stage.stop_operator()
