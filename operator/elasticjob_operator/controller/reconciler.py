"""One reconcile of a job: take a snapshot, plan, execute, write the status. It is level-triggered and may be repeated.

The process may end at any await here. So everything that must survive is in etcd or in the API server before anything
depends on it.
"""

from collections import Counter
from collections.abc import Callable

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.executor import ActionExecutor, ReconcileContext
from elasticjob_operator.controller.import_profiles import ImportProfiles
from elasticjob_operator.controller.job_claims import JobClaims
from elasticjob_operator.controller.job_snapshots import JobSnapshots, Sources
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.controller.status_writer import StatusWriter
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.actions import Action, Plan
from elasticjob_operator.model.cluster_interface import Cluster, Object
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import WATCH_DEADLINE_S, JobState
from elasticjob_operator.model.snapshot import DeletedJob, RejectedJob, Snapshot
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.installation import UnmanagedReason, is_orphaning, owned_by_another
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.interface import CertificateIssuer

MIN_INTERVAL_PER_NODE_S = 0.0004
"""Least time between two reconciles for each node beyond `SMALL_JOB`. A reconcile costs about 0.06 ms a node.

All nodes of a round report at about the same time, so one reconcile handles many reports.
"""
SMALL_JOB = 100
"""Up to that many nodes a job is reconciled as soon as something changes."""
MAX_INTERVAL_S = 2.0


def min_interval_s(nodes: int) -> float:
    """Return the least time between two reconciles of a job with that many nodes, unless its last write is awaited."""
    return min(MAX_INTERVAL_S, MIN_INTERVAL_PER_NODE_S * max(0, nodes - SMALL_JOB))


class Reconciler:
    """Reconciles any job, and keeps a `JobState` for each."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        etcd: Etcd,
        settings: Settings,
        sources: Sources,
        clocks: Clocks,
        ids: Ids,
        metrics: MetricsRecorder | None = None,
        observer: ReconcileObserver | None = None,
        credentials: CertificateIssuer | None = None,
        is_saturated: Callable[[], bool] = lambda: False,
    ) -> None:
        metrics, self._observer = metrics or MetricsRecorder(), observer or ReconcileObserver()
        self._settings = settings
        self._sources = sources
        self._clocks = clocks
        self._ids = ids
        self._claims = JobClaims(cluster, sources.pods, settings)
        self._snapshots = JobSnapshots(
            sources=sources, settings=settings, clocks=clocks, metrics=metrics, observer=self._observer
        )
        self._executor = ActionExecutor(
            cluster=cluster,
            etcd=etcd,
            before_etcd_write=sources.rendezvous.flush,
            clock=clocks.monotonic,
            import_profiles=ImportProfiles(
                etcd=etcd, cluster=cluster, cluster_id=settings.cluster_id, clock=clocks.monotonic
            ),
            credentials=credentials,
        )
        self._status_writer = StatusWriter(
            cluster=cluster,
            settings=settings,
            clocks=clocks,
            metrics=metrics,
            jobs=lambda: len(sources.jobs),
            is_saturated=is_saturated,
        )
        self._job_states: dict[JobKey, JobState] = {}
        self._unmanaged: dict[JobKey, UnmanagedReason] = {}

    def reset(self) -> None:
        """Forget everything that an earlier leadership recorded; no reconcile may be running."""
        # Another process may have acted in between, or may act now.
        for key in self._job_states:
            self._snapshots.forget(key)
        self._job_states.clear()
        self._unmanaged.clear()
        self._status_writer.reset()

    def unmanaged(self) -> Counter[tuple[str, str]]:
        """Return the number of unmanaged jobs by namespace and reason."""
        return Counter((key.namespace, reason.value) for key, reason in self._unmanaged.items())

    def pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        """Record that the watch reported the deletion of a pod, the only proof that needs no request."""
        if (job_state := self._job_states.get(key)) is not None:
            job_state.observed_absent(name, uid)

    def user_found(self, key: JobKey) -> None:
        """Record that etcd has a user of a job that is gone or being deleted: the next reconcile removes it."""
        self._state_of(key).has_user = True

    def job_changed(self, key: JobKey, before: Object | None, after: Object | None) -> bool:
        """Return whether a new version of a job needs a reconcile; the progress that this process wrote needs none.

        A version is None while the cache does not have the job.
        """
        job_state = self._job_states.get(key)
        if job_state is None or after is None or after.get("status") != job_state.written_status:
            return True
        self._sources.jobs.share_status(key, job_state.written_status)
        if before is None or not job_state.last_write_was_progress_only:
            return True
        return not objects.is_same_except_status(before, after)

    def min_interval_s(self, key: JobKey) -> float:
        """Return the least time until the job's next reconcile: more for a large job, 0 while our write is awaited."""
        job_state = self._job_states.get(key)
        store, revision = job_state.written if job_state else (0, 0)
        if store == self._sources.rendezvous.store and self._sources.rendezvous.revision < revision:
            return 0.0
        return min_interval_s(len(self._sources.pods.of(key)))

    async def reconcile(self, key: JobKey) -> float | None:
        """Reconcile the job; return seconds until the next reconcile is due without a change, or None.

        Raises errors after which the queue should retry.
        """
        obj = self._sources.jobs.get(key)
        self._unmanaged.pop(key, None)
        if obj is not None:
            if is_orphaning(obj):
                return None
            if (reason := self._unmanaged_reason(key, obj)) is not None:
                await self._ignore(key, obj, reason)
                return None
            if not objects.is_terminating(obj):
                obj = await self._claims.claim(key, obj, self._state_of(key))
                if obj is None:
                    return WATCH_DEADLINE_S  # the job has changed: its new version queues it again
        snapshot = self._snapshots.take(key, obj, self._state_of(key))
        if snapshot is None:
            return None  # our own last write is not in the view yet: its arrival queues the job
        wanted = plan(snapshot, self._ids)
        if isinstance(snapshot, DeletedJob):
            if wanted.actions and await self._executor.job_exists(key):
                return None  # the cache of jobs is behind
        elif obj is not None:
            self._observer.reconciled(key, obj, wanted.status or snapshot.status, snapshot.view, snapshot.now_s)
        return await self._carry_out(snapshot, wanted, obj)

    def _state_of(self, key: JobKey) -> JobState:
        return self._job_states.setdefault(key, JobState())

    def _unmanaged_reason(self, key: JobKey, obj: Object) -> UnmanagedReason | None:
        known = self._job_states.get(key)
        return self._claims.unmanaged_reason(key, obj, claimed=known is not None and bool(known.installation))

    async def _ignore(self, key: JobKey, obj: Object, reason: UnmanagedReason) -> None:
        """Record that the job is unmanaged; the first time write an event, if another installation owns it."""
        self._unmanaged[key] = reason
        event = owned_by_another(obj, self._settings.installation)
        if reason is not UnmanagedReason.OWNED_BY_ANOTHER or self._state_of(key).foreign_event == event:
            return
        self._snapshots.forget(key)
        # State from the time when this installation owned the job is no longer valid.
        job_state = self._job_states[key] = JobState(foreign_event=event)
        await self._status_writer.record(key, obj, job_state, (event,))

    async def _carry_out(self, snapshot: Snapshot, wanted: Plan, obj: Object | None) -> float | None:
        key, job_state = snapshot.key, snapshot.job_state
        context = ReconcileContext(key, key.keys(self._settings.cluster_id), job_state, snapshot.store)
        written, status_in_s = job_state.written, None
        if isinstance(snapshot, RejectedJob):  # first: etcd may hang, and must not delay the reason of the rejection
            status_in_s = await self._write_status(snapshot, wanted, obj)
        error = await self._execute(context, wanted.actions)
        if obj is not None:
            await self._status_writer.record(key, obj, job_state, context.events)
        if job_state.written != written:
            return WATCH_DEADLINE_S  # the slot map has changed: its arrival queues the job, with a newer status
        if not isinstance(snapshot, RejectedJob):
            status_in_s = await self._write_status(snapshot, wanted, obj)
        if error is not None:
            raise error
        if wanted.is_last:
            self._job_states.pop(key, None)
        requeue_in_s = wanted.requeue_in_s
        if requeue_in_s is not None:  # the delay began with the snapshot
            requeue_in_s = max(0.0, snapshot.monotonic_s + requeue_in_s - self._clocks.monotonic())
        again = (*context.requeue_after_s, status_in_s, requeue_in_s)
        return min((delay_s for delay_s in again if delay_s is not None), default=None)

    async def _write_status(self, snapshot: Snapshot, wanted: Plan, obj: Object | None) -> float | None:
        if wanted.status is None or obj is None:
            return None
        return await self._status_writer.write(snapshot.key, obj, snapshot.job_state, wanted.status)

    async def _execute(self, context: ReconcileContext, actions: tuple[Action, ...]) -> Exception | None:
        """Execute the actions; return the error, if any, so that the status can be written before it is raised."""
        try:
            with self._snapshots.apply_limiter.of(context.key.namespace, actions):
                await self._executor.execute(context, actions)
        except ClusterError as error:
            context.job_state.failed_creation_reason = str(error)
            return error
        except EtcdError as error:
            self._sources.health.check_now()
            return error
        context.job_state.failed_creation_reason = ""
        return None
