"""The operator as a whole: two watches and a mirror into caches, caches into a work queue, a reconciler behind it.

Nothing is reconciled before jobs and pods are listed, and etcd has been listed or is known not to answer. It
needs a `Cluster` and an `Etcd`, whichever they are; on one machine both live in the same process.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_etcd.protocol import Etcd
from elasticjob_operator import txns
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.caches import JobCache, PodCache
from elasticjob_operator.cluster.health import EtcdHealth
from elasticjob_operator.cluster.protocol import Change, Cluster, ObjectEvent, Resource
from elasticjob_operator.cluster.queue import WorkQueue
from elasticjob_operator.cluster.rendezvous import Rendezvous
from elasticjob_operator.credentials.protocol import Credentials
from elasticjob_operator.ids import Ids
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.meter import Meter
from elasticjob_operator.onlooker import Onlooker
from elasticjob_operator.policy.upkeep import upkeep_in_s
from elasticjob_operator.reconcile import Reconciler, Sources
from elasticjob_operator.settings import Settings

SWEEP_S = 3600.0
"""How often everything is looked at without a reason: keys of jobs that went unnoticed."""
GATHER_S = 0.5
"""How long good news of a job's pods are gathered: its status is written once a second at most."""

log = logging.getLogger(__name__)


class Operator:
    """One operator; `run` it once, cancel it to stop. Clock is wall clock, in seconds."""

    def __init__(
        self,
        cluster: Cluster,
        etcd: Etcd,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        ids: Ids | None = None,
        meter: Meter | None = None,
        onlooker: Onlooker | None = None,
        credentials: Credentials | None = None,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._cluster = cluster
        self._etcd = etcd
        self._credentials = credentials
        self._meter = meter or Meter()
        self._queue: WorkQueue[JobKey] = WorkQueue(self._reconcile)
        self._settings = settings
        self._softly_s: dict[JobKey, float] = {}
        """When a job was, or will be, looked at for its progress; seconds of the event loop's clock."""
        self._jobs = JobCache(self._job_changed, self._is_said, self._written)
        self._pods = PodCache(self._queue.add, self._pod_deleted, self._look_soon)
        self._rendezvous = Rendezvous(
            etcd,
            settings.cluster_id,
            on_change=self._queue.add,
            on_listed=self._look_at_everything,
            on_report=self._meter.report,
            on_soft_change=self._look_softly,
        )
        self._health = EtcdHealth(etcd, self._look_at_everything)
        sources = Sources(jobs=self._jobs, pods=self._pods, rendezvous=self._rendezvous, health=self._health)
        self._reconciler = Reconciler(
            cluster=cluster,
            etcd=self._rendezvous.etcd,
            settings=settings,
            sources=sources,
            clock=clock,
            ids=ids or Ids(),
            meter=self._meter,
            onlooker=onlooker,
            credentials=credentials,
            crowded=crowded,
        )
        self._etcd_known = asyncio.Event()
        self.ready = False
        """Jobs, pods and etcd were listed: it is at work."""

    async def run(self) -> None:
        """Operate until cancelled; raises what cannot heal (etcd refuses us, the cluster ends a watch)."""
        jobs_listed, pods_listed = asyncio.Event(), asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(Resource.JOB, self._jobs.apply, jobs_listed), name="jobs")
                tasks.create_task(self._follow(Resource.POD, self._pods.apply, pods_listed), name="pods")
                tasks.create_task(self._rendezvous.run(), name="rendezvous")
                tasks.create_task(self._health.run(), name="etcd health")
                for known in (jobs_listed, pods_listed, self._etcd_known):
                    await known.wait()
                self._spread_soft_looks()
                self._queue.open()
                self.ready = True
                tasks.create_task(self._sweep(), name="sweep")
                if self._credentials is not None:
                    work = self._credentials.run(lambda: self._rendezvous.store, self._is_anything_left, self._purge)
                    tasks.create_task(work, name="credentials")
        finally:
            await self._queue.close()

    async def _follow(self, resource: Resource, apply: Callable[[ObjectEvent], None], listed: asyncio.Event) -> None:
        async with contextlib.aclosing(self._cluster.watch(resource)) as stream:
            async for event in stream:
                apply(event)
                self._meter.heard(resource)
                if event.change is Change.SYNCED:
                    listed.set()

    def phases(self) -> Counter[tuple[str, str]]:
        """How many jobs there are, by namespace and phase."""
        return Counter((job.namespace, phase) for job, phase in self._jobs.phases())

    def depth(self) -> int:
        """Jobs that wait for their turn or have it."""
        return self._queue.depth

    async def _reconcile(self, key: JobKey) -> float | None:
        began_s = time.monotonic()
        failed = True
        try:
            delay_s = await self._reconciler.reconcile(key)
            failed = False
        finally:
            self._meter.turned(took_s=time.monotonic() - began_s, failed=failed)
        return delay_s

    def _job_changed(self, key: JobKey) -> None:
        """By somebody else: what it comes to in etcd should not be waited for there."""
        self._rendezvous.hurry()
        self._queue.add(key)

    def _is_said(self, key: JobKey, status: object) -> bool:
        return self._reconciler.is_said(key, status)

    def _written(self, key: JobKey) -> Mapping[str, Any]:
        return self._reconciler.written(key)

    def _pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        self._reconciler.pod_deleted(key, name, uid)

    def _look_soon(self, key: JobKey) -> None:
        """For what nobody waits for: a job's pods come and start one by one, and each is told twice and more."""
        self._queue.add_after(key, GATHER_S)

    def _spread_soft_looks(self) -> None:
        """All have told something since the last process ended; a job's turn to say it comes about then, not now."""
        now_s, known = asyncio.get_running_loop().time(), self._jobs.keys()
        for key in known:
            turn_s = upkeep_in_s(key.uid, jobs=len(known), a_second=self._settings.soft_writes_per_s)
            self._softly_s[key] = now_s + turn_s

    def _look_softly(self, key: JobKey) -> None:
        """For what only goes on, each job is looked at once in a while, the first time at once."""
        now_s = asyncio.get_running_loop().time()
        looked_s = self._softly_s.get(key, float("-inf"))
        if looked_s <= now_s:  # none is planned
            self._softly_s[key] = max(now_s, looked_s + self._settings.soft_period_s(len(self._jobs)))
            self._queue.add_after(key, self._softly_s[key] - now_s)

    def _look_at_everything(self) -> None:
        """Etcd was listed, or its health has changed: it concerns every job, and is the word that start waits for."""
        self._etcd_known.set()
        if self._credentials is not None:
            self._credentials.suspect()
        for key in self._jobs.keys() | self._pods.keys() | self._rendezvous.keys():
            self._queue.add(key)

    async def _is_anything_left(self, key: JobKey) -> bool:
        if key in self._jobs.keys() | self._pods.keys():
            return True
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found is not None and objects.uid_of(found) == key.uid

    async def _purge(self, key: JobKey) -> None:
        await self._etcd.txn(txns.delete_prefix(key.keys(self._settings.cluster_id)))

    async def _sweep(self) -> None:
        while True:
            known = self._jobs.keys()
            self._softly_s = {key: at_s for key, at_s in self._softly_s.items() if key in known}
            self._look_at_everything()
            await asyncio.sleep(SWEEP_S)
