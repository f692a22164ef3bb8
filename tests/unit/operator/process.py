"""One process of the operator in the model: a real Reconciler, with caches that the test fills."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.job_snapshots import Sources
from elasticjob_operator.controller.reconciler import Reconciler
from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from elasticjob_operator.model.cluster_interface import ObjectEvent, Resource
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.settings import Settings
from tests.unit.operator.gates import Gate, GatedCluster, GatedEtcd

if TYPE_CHECKING:
    from tests.unit.operator.cluster_model import Model

SETTINGS = Settings(
    cluster_id="c", operator_id="op", installation="here", etcd_endpoints=("etcd:2379",), status_period_s=0.0
)


class Process:
    """One process of the operator: caches, job states, and at most one reconcile in progress."""

    def __init__(self, model: "Model") -> None:
        self.model = model
        self.gate = Gate()
        self.etcd = InMemoryEtcd(model.store)
        self.jobs, self.pods = JobCache(_ignore), PodCache(_ignore, self._pod_deleted)
        self.mirror_etcd = InMemoryEtcd(model.store)
        # As in production, it is created within its event loop.
        self.rendezvous = model.loop.run_until_complete(self._follow())
        self.health = EtcdHealth(self.etcd, lambda: None)
        sources = Sources(jobs=self.jobs, pods=self.pods, rendezvous=self.rendezvous, health=self.health)
        self.reconciler = Reconciler(
            cluster=GatedCluster(model.cluster, self.gate),
            etcd=GatedEtcd(self.etcd, self.gate),
            settings=replace(SETTINGS, agent_image=model.agent_image),
            sources=sources,
            clocks=Clocks(wall=lambda: model.now_s + model.wrong_by_s, monotonic=lambda: model.now_s),
            ids=Ids(suffix=lambda: next(model.suffixes), nonce=lambda: next(model.nonces)),
        )
        self.streams = {resource: model.cluster.watch(resource) for resource in (Resource.JOB, Resource.POD)}
        self.undelivered: dict[Resource, list[ObjectEvent]] = {resource: [] for resource in self.streams}
        self.turn: asyncio.Task[float | None] | None = None
        self.again_at_s: float | None = None
        self.tasks = [
            model.loop.create_task(self.rendezvous.run()),
            *(model.loop.create_task(self._pump(resource)) for resource in self.streams),
        ]

    async def _follow(self) -> RendezvousInformer:
        return RendezvousInformer(self.mirror_etcd, SETTINGS.cluster_id, on_change=_ignore, on_listed=lambda: None)

    async def _pump(self, resource: Resource) -> None:
        async for event in self.streams[resource]:
            self.undelivered[resource].append(event)

    def _pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        self.reconciler.pod_deleted(key, name, uid)

    def deliver(self, resource: Resource, count: int | None = None) -> None:
        """Deliver the next events of a watch."""
        cache = self.jobs if resource is Resource.JOB else self.pods
        events = self.undelivered[resource]
        due = events[:count]
        del events[:count]
        for event in due:
            cache.apply(event)

    async def stop(self) -> None:
        """End the process at once."""
        running = [*self.tasks, *([self.turn] if self.turn else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for stream in self.streams.values():
            await stream.aclose()


def _ignore(*_change: object) -> None:
    """Ignore changes: the test starts each reconcile."""
