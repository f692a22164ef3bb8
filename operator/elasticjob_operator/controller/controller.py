"""The operator: two watches and a mirror fill caches, changes fill a work queue, and a reconciler handles its keys.

Nothing is reconciled before jobs and pods are listed, and etcd has been listed or is known not to answer. Of several
replicas only the leader reconciles; the others follow the watches and the mirror, and write nothing. Any `Cluster` and
any `Etcd` will do; for a run on one machine both are in the same process.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from elasticjob_etcd.interface import PagedEtcd
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.controller.job_snapshots import Sources
from elasticjob_operator.controller.leader_election import LeaderElector
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.controller.reconciler import Reconciler
from elasticjob_operator.controller.workqueue import WorkQueue
from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from elasticjob_operator.maintenance.tasks import EtcdTasks
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Cluster, Object, ObjectEvent, Resource, Watch
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import EtcdQuota, unread_quota
from elasticjob_operator.policy.lifecycle.resync import resync_in_s
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.interface import CertificateIssuer

SWEEP_S = 3600.0
"""Time between two reconciles of all jobs without a change; it finds keys of jobs whose deletion was missed."""
POD_EVENT_DELAY_S = 0.5
"""Delay for changes of pods that need no action: a job's status is written once a second at most."""

log = logging.getLogger(__name__)


class Controller:
    """One operator: call `run` once, and cancel it to stop."""

    def __init__(
        self,
        cluster: Cluster,
        etcd: PagedEtcd,
        settings: Settings,
        *,
        watch: Watch,
        metrics: MetricsRecorder | None = None,
        observer: ReconcileObserver | None = None,
        credentials: CertificateIssuer | None = None,
        etcd_tasks: EtcdTasks | None = None,
        elector: LeaderElector | None = None,
        is_saturated: Callable[[], bool] = lambda: False,
        is_watched: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Create the operator without starting it.

        `is_watched` takes a namespace. Etcd may hold jobs of other namespaces; they are left alone. A namespace may
        become watched later, at the end of a list.
        """
        self._cluster, self._etcd, self._settings = cluster, etcd, settings
        self._metrics = metrics or MetricsRecorder()
        self._credentials, self._elector = credentials, elector
        self._etcd_tasks = etcd_tasks or EtcdTasks()
        self._watch_objects, self._is_watched_namespace = watch, is_watched
        self._skipped_namespaces: set[str] = set()
        """Namespaces that were not watched when something changed there."""
        self._is_warm = self._leading = False
        self._etcd_known = asyncio.Event()
        """Set once etcd was listed, or is known not to answer."""
        self._queue: WorkQueue[JobKey] = WorkQueue(
            self._reconcile, min_interval_s=self._min_interval_s, group=lambda key: key.namespace
        )
        self._progress_due_s: dict[JobKey, float] = {}
        """Time of each job's last or next reconcile for its progress; seconds of the event loop's clock."""
        self._jobs = JobCache(self._job_changed)
        self._pods = PodCache(self._enqueue, self._pod_deleted, self._enqueue_delayed)
        self._rendezvous = self._create_rendezvous_informer()
        self._health = EtcdHealth(etcd, self._health_changed)
        self._reconciler = self._create_reconciler(observer, is_saturated)

    def _create_rendezvous_informer(self) -> RendezvousInformer:
        return RendezvousInformer(
            self._etcd,
            self._settings.cluster_id,
            on_change=self._enqueue,
            on_listed=self._enqueue_all,
            on_report=self._report,
            on_progress=self._enqueue_progress,
            allowed=self._allowed,
            memory=self._settings.records_memory,
        )

    def _create_reconciler(self, observer: ReconcileObserver | None, is_saturated: Callable[[], bool]) -> Reconciler:
        sources = Sources(jobs=self._jobs, pods=self._pods, rendezvous=self._rendezvous, health=self._health)
        return Reconciler(
            cluster=self._cluster,
            etcd=self._etcd,
            settings=self._settings,
            sources=sources,
            clocks=Clocks(),
            ids=random_ids(),
            metrics=self._metrics,
            observer=observer,
            credentials=self._credentials,
            is_saturated=is_saturated,
        )

    @property
    def ready(self) -> bool:
        """Whether jobs, pods and etcd were listed, and this process leads or knows the leader."""
        return self._is_warm and (self._elector is None or bool(self._elector.holder))

    @property
    def is_leader(self) -> bool:
        """Whether this process leads; if not, it is a standby with warm caches that writes nothing."""
        return self._leading and (self._elector is None or self._elector.is_leader)

    async def run(self) -> None:
        """Operate until cancelled; raises errors that a retry cannot cure (etcd refuses us, a watch is stale)."""
        jobs_listed, pods_listed = asyncio.Event(), asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(Resource.JOB, self._jobs.apply, jobs_listed), name="jobs")
                tasks.create_task(self._watch(Resource.POD, self._pods.apply, pods_listed), name="pods")
                tasks.create_task(self._watch_etcd(jobs_listed, pods_listed), name="rendezvous")
                tasks.create_task(self._health.run(), name="etcd health")
                for known in (jobs_listed, pods_listed, self._etcd_known):
                    await known.wait()
                self._is_warm = True
                await (self._lead() if self._elector is None else self._elector.run(self._lead))
        finally:
            self._is_warm = False

    async def _lead(self) -> None:
        """Act as the leader until cancelled."""
        self._leading = True
        # Another process may have led in between: begin with empty memory, as a new process would.
        self._reconciler.reset()
        self._schedule_initial_progress()
        if self._credentials is not None:
            self._credentials.forget_etcd()
        try:
            self._queue.open()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._sweep(), name="sweep")
                self._etcd_tasks.start(tasks)
                if self._credentials is not None:
                    work = self._credentials.run(lambda: self._rendezvous.store, self._user_found)
                    tasks.create_task(work, name="credentials")
        finally:
            self._leading = False
            await self._queue.close()
            self._reconciler.reset()

    async def _watch(self, resource: Resource, apply: Callable[[ObjectEvent], None], listed: asyncio.Event) -> None:
        async with contextlib.aclosing(self._watch_objects(resource)) as stream:
            async for event in stream:
                apply(event)
                self._metrics.watch_event(resource)
                if event.change is Change.SYNCED:
                    listed.set()
                    self._enqueue_skipped()

    async def _watch_etcd(self, *listed: asyncio.Event) -> None:
        """Follow etcd once jobs and pods are listed: a job's quota depends on the number of its pods."""
        for known in listed:
            await known.wait()
        await self._rendezvous.run()

    def _allowed(self, key: JobKey) -> EtcdQuota | None:
        job = self._jobs.get(key)
        return None if job is None else unread_quota(job.get("spec") or {}, nodes=len(self._pods.of(key)))

    def phases(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs by namespace and phase; empty unless this process leads."""
        if not self.is_leader:
            return Counter()
        return Counter((job.namespace, phase) for job, phase in self._jobs.phases())

    def unmanaged(self) -> Counter[tuple[str, str]]:
        """Return the number of unmanaged jobs by namespace and reason; empty unless this process leads."""
        return self._reconciler.unmanaged()

    def depth(self) -> int:
        """Return the number of jobs that wait for a reconcile or are being reconciled."""
        return self._queue.depth

    async def _reconcile(self, key: JobKey) -> float | None:
        if not self.is_leader:
            return None  # the queue is about to be closed
        began_s = time.monotonic()
        failed = True
        try:
            delay_s = await self._reconciler.reconcile(key)
            failed = False
        finally:
            self._metrics.reconciled(took_s=time.monotonic() - began_s, failed=failed)
        return delay_s

    def _min_interval_s(self, key: JobKey) -> float:
        return self._reconciler.min_interval_s(key)

    def _job_changed(self, key: JobKey, before: Object | None, after: Object | None) -> None:
        """Queue a job that a user changed."""
        if self._reconciler.job_changed(key, before, after):
            self._rendezvous.flush()  # changes of etcd must not be collected while the effect is awaited
            self._enqueue(key)

    def _enqueue(self, key: JobKey) -> None:
        """Queue a job, unless this process is a standby or does not watch the namespace."""
        if self._leading and self._check_watched(key):  # a new leader begins with a reconcile of every job
            self._queue.add(key)

    def _check_watched(self, key: JobKey) -> bool:
        """Return whether the namespace is watched; one that is not is remembered."""
        watched = self._is_watched_namespace(key.namespace)
        if not watched:
            self._skipped_namespaces.add(key.namespace)
        return watched

    def _enqueue_skipped(self) -> None:
        watched = set(filter(self._is_watched_namespace, self._skipped_namespaces))
        self._skipped_namespaces -= watched
        for key in self._known_keys() if watched else ():
            if key.namespace in watched:
                self._enqueue(key)

    def _known_keys(self) -> AbstractSet[JobKey]:
        return self._jobs.keys() | self._pods.keys() | self._rendezvous.keys()

    def _report(self, *, readable: bool) -> None:
        if self._leading:
            self._metrics.report(readable=readable)

    def _pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        self._reconciler.pod_deleted(key, name, uid)

    def _enqueue_delayed(self, key: JobKey) -> None:
        """Queue the job after a short delay: its pods appear and start one by one, and each changes several times."""
        if self._leading and self._check_watched(key):
            self._queue.add_after(key, POD_EVENT_DELAY_S)

    def _schedule_initial_progress(self) -> None:
        """Schedule the first progress update of each job, spread over time: after a restart every job has changed."""
        now_s, known = asyncio.get_running_loop().time(), self._jobs.keys()
        self._progress_due_s.clear()
        for key in known:
            turn_s = resync_in_s(key.uid, jobs=len(known), jobs_per_second=self._settings.progress_writes_per_s)
            self._progress_due_s[key] = now_s + turn_s

    def _enqueue_progress(self, key: JobKey) -> None:
        """Queue a job whose progress alone has changed: the first time at once, then after the progress interval."""
        if not self._leading or not self._check_watched(key):
            return
        now_s = asyncio.get_running_loop().time()
        last_s = self._progress_due_s.get(key, float("-inf"))
        if last_s <= now_s:  # none is planned
            self._progress_due_s[key] = max(now_s, last_s + self._settings.progress_interval_s(len(self._jobs)))
            self._queue.add_after(key, self._progress_due_s[key] - now_s)

    def _health_changed(self) -> None:
        if self._etcd_tasks.space is not None and self._health.is_full:
            self._etcd_tasks.space.check_now()
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        """Queue every job, because etcd was listed or its health has changed."""
        self._etcd_known.set()
        if self._credentials is not None:
            self._credentials.recheck()
        for key in self._known_keys():
            self._enqueue(key)

    def _user_found(self, key: JobKey) -> None:
        """Queue a job that is gone, or being deleted, and still has a user in etcd."""
        obj = self._jobs.get(key)
        if self._check_watched(key) and (obj is None or objects.is_terminating(obj)):
            self._reconciler.user_found(key)
            self._enqueue(key)

    async def _sweep(self) -> None:
        while True:
            known = self._jobs.keys()
            self._progress_due_s = {key: at_s for key, at_s in self._progress_due_s.items() if key in known}
            self._enqueue_all()
            await asyncio.sleep(SWEEP_S)
