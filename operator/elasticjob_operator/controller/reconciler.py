"""One reconcile of a job: observe, plan, act, write the status. It is level-triggered and may be repeated.

The process may end at any await here. So everything that must survive is in etcd or in the API server before anything
depends on it.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd
from elasticjob_operator.controller.agent_counts import AgentCounts
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.deletion_plan import plan_deletion, plan_quota_violation
from elasticjob_operator.controller.executor import ActionExecutor, ReconcileContext
from elasticjob_operator.controller.ids import Ids
from elasticjob_operator.controller.job_parser import CachingJobParser, read_status
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.controller.plan import plan
from elasticjob_operator.controller.status_writer import StatusWriter
from elasticjob_operator.errors import ClusterError, Conflict, Forbidden, RenderError
from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from elasticjob_operator.metrics.job_health import job_health
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.actions import Action, RemoveEtcdUser
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.model.finished_job import has_ended
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import WATCH_DEADLINE_S, JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.etcd.quota import quota
from elasticjob_operator.policy.lifecycle.installation import (
    FIELD,
    LeftAloneReason,
    Ownership,
    is_foreign,
    is_managed,
    is_orphaning,
    owned_by_another,
    ownership,
)
from elasticjob_operator.policy.lifecycle.pod_revisions import current_revision
from elasticjob_operator.policy.lifecycle.resync import LATER_S, ApplyLimiter, is_due, is_unverified, resync_in_s
from elasticjob_operator.policy.slots.creation_backoff import while_pods_missing
from elasticjob_operator.policy.slots.joined import joined_before
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from elasticjob_operator.policy.slots.node_avoidance import record_losses
from elasticjob_operator.policy.slots.replacement_backoff import update_histories
from elasticjob_operator.policy.slots.unreachable_agents import no_longer_exempt, silences, unreachable_pods
from elasticjob_operator.policy.status.build import is_finished, rejected_status
from elasticjob_operator.policy.status.last_seen import record_view
from elasticjob_operator.policy.status.rounds import update_rounds
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.interface import CertificateIssuer

MIN_INTERVAL_PER_NODE_S = 0.0004
"""Least time between two reconciles for each node beyond `SMALL_JOB`. A reconcile costs about 0.06 ms a node.

All nodes of a round report at about the same time, so one reconcile handles many reports.
"""
SMALL_JOB = 100
"""Up to that many nodes a job is reconciled as soon as something changes."""
MAX_INTERVAL_S = 2.0

log = logging.getLogger(__name__)


def min_interval_s(nodes: int) -> float:
    """Return the least time between two reconciles of a job with that many nodes, unless its last write is awaited."""
    return min(MAX_INTERVAL_S, MIN_INTERVAL_PER_NODE_S * max(0, nodes - SMALL_JOB))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The caches that a reconciler reads; each is as current as its watch."""

    jobs: JobCache
    pods: PodCache
    rendezvous: RendezvousInformer
    health: EtcdHealth


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
        self._meter = metrics or MetricsRecorder()
        self._observer = observer or ReconcileObserver()
        self._settings = settings
        self._sources = sources
        self._clocks = clocks
        self._ids = ids
        self._cluster = cluster
        self._executor = ActionExecutor(
            cluster=cluster,
            etcd=etcd,
            before_etcd_write=sources.rendezvous.flush,
            clock=clocks.monotonic,
            credentials=credentials,
        )
        jobs = sources.jobs
        self._status_writer = StatusWriter(
            cluster=cluster,
            settings=settings,
            clocks=clocks,
            metrics=self._meter,
            jobs=lambda: len(jobs),
            is_saturated=is_saturated,
        )
        self._job_states: dict[JobKey, JobState] = {}
        self._parsers: defaultdict[JobKey, CachingJobParser] = defaultdict(CachingJobParser)
        self._agents = AgentCounts()
        self._left_alone: dict[JobKey, LeftAloneReason] = {}
        self._apply_limiter = ApplyLimiter()

    def reset(self) -> None:
        """Forget everything that an earlier leadership recorded; no reconcile may be running."""
        # Another process may have acted in between, or may act now.
        for key in self._job_states:
            self._meter.job_health(key, None)
            self._observer.deleted(key)
        self._job_states.clear()
        self._parsers.clear()
        self._left_alone.clear()
        self._agents = AgentCounts()
        self._status_writer.reset()

    def left_alone(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs that are left alone, by namespace and reason."""
        return Counter((key.namespace, reason.value) for key, reason in self._left_alone.items())

    def pod_deleted(self, key: JobKey, name: str, uid: str) -> None:
        """Record that the watch reported the deletion of a pod, the only proof that needs no request."""
        if (job_state := self._job_states.get(key)) is not None:
            job_state.observed_absent(name, uid)

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
        self._left_alone.pop(key, None)
        if obj is not None and await self._leave_alone(key, obj):
            return None
        if obj is None or objects.is_terminating(obj):
            return await self._reconcile_deleted(key)
        if (found := await self._claim_full(key, obj)) is None:
            return WATCH_DEADLINE_S  # the job has changed: its new version queues it again
        obj, job_state = found, self._new_context(key).job_state
        try:
            job = self._parsers[key].parse(obj, job_state.status)
        except (InvalidSpec, RenderError) as error:
            return await self._reject(key, obj, str(error))
        return await self._reconcile_job(key, obj, job)

    async def _leave_alone(self, key: JobKey, obj: Object) -> bool:
        """Leave the job alone if another controller or installation acts on it, or it is orphaning; return whether."""
        if not is_managed(obj, self._settings.manager_name):
            self._left_alone[key] = LeftAloneReason.MANAGED_BY_ANOTHER
            return True
        if is_orphaning(obj):
            return True
        if self._ownership(key, obj) is not Ownership.FOREIGN:
            return False
        self._left_alone[key] = LeftAloneReason.OWNED_BY_ANOTHER
        event = owned_by_another(obj, self._settings.installation)
        if self._new_context(key).job_state.is_ignored != event:
            self._meter.job_health(key, None)
            self._observer.deleted(key)
            self._agents.forget(key)
            # State from the time when this installation owned the job is no longer valid.
            job_state = self._job_states[key] = JobState(is_ignored=event)
            await self._status_writer.record(key, obj, job_state, (event,))
        return True

    def _ownership(self, key: JobKey, obj: Object) -> Ownership:
        pods, prefix = self._sources.pods.of(key).values(), self._new_context(key).keys.prefix
        claimed = bool(self._new_context(key).job_state.installation)
        ours = self._settings.installation
        return ownership(obj, pods, installation=ours, prefix=prefix, claimed=claimed)

    async def _claim_full(self, key: JobKey, obj: Object) -> Object | None:
        """Return the claimed job with every field that is needed; None if it has changed or does not exist."""
        if objects.is_too_large(obj):  # not claimed: each write of such a job costs the API server seconds
            return obj
        claimed = await self._claim(key, obj)
        status = self._new_context(key).job_state.status
        if claimed is None or status is None or is_finished(status) or not has_ended(claimed):
            return claimed
        # The cache drops most fields of a job whose status shows its end. This operator has not written that end, so
        # the job may have to continue: read it whole.
        found = await self._cluster.get(Resource.JOB, key.namespace, key.name)
        return found if found is not None and objects.uid_of(found) == key.uid else None

    async def _claim(self, key: JobKey, obj: Object) -> Object | None:
        """Return the job once its status names this installation; None if it has changed meanwhile."""
        job_state, version = self._new_context(key).job_state, objects.version_of(obj)
        ours = self._settings.installation
        if job_state.installation == ours:
            return obj
        if self._ownership(key, obj) is Ownership.UNCLAIMED:
            try:
                version = await self._cluster.claim(Resource.JOB, key.namespace, key.name, {FIELD: ours}, version)
            except Conflict:
                return None
            except Forbidden as error:
                log.warning("%s: cannot write status.installation %s: %s", key, ours, error)
        job_state.is_ignored, job_state.installation = None, ours
        return objects.with_version(obj, version)

    async def _reconcile_job(self, key: JobKey, obj: Object, job: ElasticJob) -> float | None:
        context = self._new_context(key)
        self._sources.rendezvous.allow(key, quota(job.spec, nodes=len(self._sources.pods.of(key))))
        snapshot = self._take_snapshot(key, job, context.job_state)
        if not snapshot.etcd_trouble and self._cache_is_stale(context, snapshot.view):
            return None  # our own last write is not in the view yet: its arrival queues the job
        self._update_state(key, snapshot)
        snapshot = replace(snapshot)  # the job state has changed, so drop values that were computed from it
        wanted = plan(snapshot, self._ids)
        self._observer.reconciled(key, obj, wanted.status or snapshot.status, snapshot.view, snapshot.now_s)
        written = context.job_state.written
        error = await self._execute(context, wanted.actions)
        await self._status_writer.record(key, obj, context.job_state, context.events)
        if context.job_state.written != written:
            return WATCH_DEADLINE_S  # the slot map has changed: its arrival queues the job, with a newer status
        status_in_s = (
            await self._status_writer.write(key, obj, context.job_state, wanted.status) if wanted.status else None
        )
        if error is not None:
            raise error
        again = [*context.requeue_after_s, status_in_s, self._requeue_within_interval_s(snapshot, wanted.requeue_in_s)]
        return min((s for s in again if s is not None), default=None)

    def _own_pods(self, context: ReconcileContext) -> dict[str, Pod]:
        """Return the pods that may be deleted with the job: not those of another installation."""
        ours, pods = self._settings.installation, self._sources.pods.of(context.key)
        if context.job_state.is_ignored is not None:
            return {}
        prefix = context.keys.prefix
        return {name: pod for name, pod in pods.items() if not is_foreign(pod, installation=ours, prefix=prefix)}

    def _requeue_within_interval_s(self, snapshot: JobSnapshot, delay_s: float | None) -> float | None:
        """Return the rest of a delay that began with the snapshot."""
        return None if delay_s is None else max(0.0, snapshot.monotonic_s + delay_s - self._clocks.monotonic())

    def _new_context(self, key: JobKey) -> ReconcileContext:
        job_state = self._job_states.setdefault(key, JobState())
        return ReconcileContext(key, key.keys(self._settings.cluster_id), job_state, self._sources.rendezvous.store)

    def _take_snapshot(self, key: JobKey, job: ElasticJob, job_state: JobState) -> JobSnapshot:
        return JobSnapshot(
            job=job,
            pods=self._sources.pods.of(key),
            view=self._sources.rendezvous.view(key),
            job_state=job_state,
            settings=self._settings,
            now_s=self._clocks.wall(),
            monotonic_s=self._clocks.monotonic(),
            etcd_trouble=self._etcd_trouble(),
            store=self._sources.rendezvous.store,
        )

    def _etcd_trouble(self) -> str:
        if self._sources.health.trouble or self._sources.rendezvous.listed:
            return self._sources.health.trouble
        return "etcd has not answered yet"

    def _cache_is_stale(self, context: ReconcileContext, view: RendezvousView) -> bool:
        store, revision = context.job_state.written
        return store == context.store and view.revision < revision

    def _update_state(self, key: JobKey, snapshot: JobSnapshot) -> None:
        """Update the job state from the snapshot; no action of this job may be in flight."""
        job_state, nodes = snapshot.job_state, snapshot.view.nodes.values()
        jobs, at_s = len(self._sources.jobs), snapshot.monotonic_s
        if is_unverified(job_state, at_s):
            job_state.applied.clear()
            job_state.resync_at_s = 0.0
        job_state.resync_at_s = job_state.resync_at_s or at_s + resync_in_s(key.uid, jobs=jobs)
        if is_due(job_state, snapshot.pods, at_s) and self._apply_limiter.is_full(key.namespace):
            job_state.resync_at_s = at_s + LATER_S + resync_in_s(key.uid, jobs=jobs)
        if job_state.rounds is None:
            job_state.agent_seen |= joined_before(snapshot.rounds, snapshot.pods.values())
        if not snapshot.etcd_trouble and not snapshot.view.is_unreadable:
            record_view(job_state.last_seen, snapshot.view, snapshot.pods)
            job_state.rounds = update_rounds(snapshot.rounds, snapshot.view, snapshot.now_s)
            owners, reason = snapshot.owners(), snapshot.status.reason
            job_state.slot_histories = update_histories(
                job_state.slot_histories, owners, at_s, now_s=snapshot.now_s, status_reason=reason
            )
            job_state.failed_creation = while_pods_missing(job_state.failed_creation, owners)
            job_state.revision = current_revision(snapshot)
            self._measure(key, job_state, snapshot)
        with_agent = set(snapshot.view.agents())
        running = {pod.uid for pod in snapshot.pods.values() if pod.running}
        job_state.record_cached(snapshot.pods, at_s)
        job_state.record_agents(running=running, with_agent=with_agent, monotonic_s=at_s)
        self._record_unreachable(key, snapshot, agents=len(running))
        names = set(snapshot.view.owners().values()) | {node.record.pod for node in nodes}
        lost = lost_pods(snapshot.job.spec, job_state, at_s)
        record_losses(job_state, snapshot.owners().values(), lost=lost.uids, monotonic_s=at_s)
        uids = {pod.uid for pod in snapshot.pods.values()}
        job_state.node_checked_s = {uid: at_s for uid, at_s in job_state.node_checked_s.items() if uid in uids}
        job_state.forget(names=names, uids={node.record.pod_uid for node in nodes})

    def _record_unreachable(self, key: JobKey, snapshot: JobSnapshot, *, agents: int) -> None:
        """Record which silent pods are not replaced, because too many agents of all jobs are silent."""
        job_state, lease_s = snapshot.job_state, snapshot.job.spec.rendezvous.keep_alive_s
        silent = silences(job_state.agentless_since_s, snapshot.pods)
        self._agents.record(key, agents, silent.values())
        now = unreachable_pods(silent, agents=agents, lease_s=lease_s, installation=self._agents.share_silent)
        job_state.record_unreachable(
            now, anew=no_longer_exempt(job_state.unreachable, now, silent), monotonic_s=snapshot.monotonic_s
        )

    def _measure(self, key: JobKey, job_state: JobState, snapshot: JobSnapshot) -> None:
        active, recovered = job_state.recovery.record(snapshot.view, in_status=snapshot.status.rendezvous_round)
        if active is not None:
            self._meter.round_active(key, active.cause)
        if recovered is not None:
            self._meter.recovered(recovered)
            self._observer.recovered(key, recovered)
        self._meter.job_health(key, job_health(snapshot))

    async def _execute(self, context: ReconcileContext, actions: tuple[Action, ...]) -> Exception | None:
        """Execute the actions; return the error, if any, so that the status can be written before it is raised."""
        try:
            with self._apply_limiter.of(context.key.namespace, actions):
                await self._executor.execute(context, actions)
        except ClusterError as error:
            context.job_state.failed_creation_reason = str(error)
            return error
        except EtcdError as error:
            self._sources.health.check_now()
            return error
        context.job_state.failed_creation_reason = ""
        return None

    async def _reject(self, key: JobKey, obj: Object, message: str) -> float | None:
        self._agents.forget(key)  # the numbers of the last accepted spec are outdated
        job_state, generation = self._new_context(key).job_state, objects.metadata(obj).get("generation", 1)
        before = job_state.status or read_status(obj)
        status = rejected_status(before, message, now=to_rfc3339(self._clocks.wall()), generation=generation)
        self._observer.reconciled(key, obj, status, RendezvousView(), self._clocks.wall())
        delay_s = await self._status_writer.write(key, obj, job_state, status)
        # The job's pods still run, with its certificate, so its quota still applies.
        error = await self._execute(
            self._new_context(key), plan_quota_violation(self._sources.rendezvous.view(key), self._settings)
        )
        if error is not None:
            raise error
        return delay_s

    async def _reconcile_deleted(self, key: JobKey) -> float | None:
        self._meter.job_health(key, None)
        self._observer.deleted(key)
        self._agents.forget(key)
        context, view = self._new_context(key), self._sources.rendezvous.view(key)
        pods = self._own_pods(context)
        if view.empty and not pods:
            # A job may be deleted after its user was created and before its first key: only the job state shows that.
            if context.job_state.has_user and not await self._executor.job_exists(key):
                await self._executor.execute(context, (RemoveEtcdUser(),))
            del self._job_states[key]
            self._parsers.pop(key, None)
            return None
        if self._cache_is_stale(context, view) or await self._executor.job_exists(key):
            return None
        claimed, now_s = bool(context.job_state.installation), self._clocks.wall()
        wanted = plan_deletion(view, pods, self._settings, now_s=now_s, claimed=claimed)
        error = await self._execute(context, wanted.actions)
        if error is not None:
            raise error
        return min((s for s in [*context.requeue_after_s, wanted.requeue_in_s] if s is not None), default=None)
