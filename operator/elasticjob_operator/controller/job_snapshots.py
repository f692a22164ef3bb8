"""The snapshots of all jobs: each is taken from the caches, after the job's state was updated from them."""

from collections import defaultdict
from dataclasses import dataclass

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob
from elasticjob_operator.controller.agent_counts import AgentCounts
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.job_parser import CachingJobParser, read_status
from elasticjob_operator.controller.job_state_update import record_observation, record_slots
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.errors import RenderError
from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.maintenance.etcd_health import EtcdHealth
from elasticjob_operator.metrics.job_health import job_health
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.snapshot import DeletedJob, JobSnapshot, Observation, RejectedJob, Snapshot
from elasticjob_operator.planner.derive import derive_snapshot
from elasticjob_operator.policy.etcd.quota import quota
from elasticjob_operator.policy.lifecycle.resync import LATER_S, ApplyLimiter, is_due, is_unverified, resync_in_s
from elasticjob_operator.policy.slots.unreachable_agents import no_longer_exempt, silences, unreachable_pods
from elasticjob_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The caches that a snapshot is taken from; each is as current as its watch."""

    jobs: JobCache
    pods: PodCache
    rendezvous: RendezvousInformer
    health: EtcdHealth

    @property
    def etcd_trouble(self) -> str:
        """The reason why etcd is unavailable; empty if it is available."""
        if self.health.trouble or self.rendezvous.listed:
            return self.health.trouble
        return "etcd has not answered yet"


class JobSnapshots:
    """Takes snapshots; all jobs together decide which agents count as unreachable, and which objects are applied."""

    def __init__(
        self,
        *,
        sources: Sources,
        settings: Settings,
        clocks: Clocks,
        metrics: MetricsRecorder,
        observer: ReconcileObserver,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._clocks = clocks
        self._metrics = metrics
        self._observer = observer
        self.apply_limiter = ApplyLimiter()
        self._parsers: defaultdict[JobKey, CachingJobParser] = defaultdict(CachingJobParser)
        self._agents = AgentCounts()

    def forget(self, key: JobKey) -> None:
        """Forget a job that no longer exists, or that another installation owns."""
        self._parsers.pop(key, None)
        self._agents.forget(key)
        self._metrics.job_health(key, None)
        self._observer.deleted(key)

    def take(self, key: JobKey, obj: Object | None, job_state: JobState) -> Snapshot | None:
        """Update the state of the job and return its snapshot; None while our own last write is not in the view yet.

        The arrival of that write queues the job.
        """
        if obj is None or objects.is_terminating(obj):
            self.forget(key)
            observed = self._observe(key, job_state)
            return None if observed.is_behind else DeletedJob(**vars(observed))
        try:
            job = self._parsers[key].parse(obj, job_state.status)
        except (InvalidSpec, RenderError) as error:
            return self._reject(obj, self._observe(key, job_state), str(error))
        self._sources.rendezvous.allow(key, quota(job.spec, nodes=len(self._sources.pods.of(key))))
        observed = self._observe(key, job_state)
        return None if observed.is_behind and not observed.etcd_trouble else self._accept(job, observed)

    def _observe(self, key: JobKey, job_state: JobState) -> Observation:
        return Observation(
            key=key,
            pods=self._sources.pods.of(key),
            view=self._sources.rendezvous.view(key),
            job_state=job_state,
            settings=self._settings,
            now_s=self._clocks.wall(),
            monotonic_s=self._clocks.monotonic(),
            etcd_trouble=self._sources.etcd_trouble,
            store=self._sources.rendezvous.store,
        )

    def _reject(self, obj: Object, observed: Observation, message: str) -> RejectedJob:
        self._agents.forget(observed.key)  # the numbers of the last accepted spec are outdated
        status, generation = observed.job_state.status or read_status(obj), objects.metadata(obj).get("generation", 1)
        return RejectedJob(**vars(observed), message=message, generation=generation, status=status)

    def _accept(self, job: ElasticJob, observed: Observation) -> JobSnapshot:
        self._schedule_resync(observed)
        record_observation(observed, job)
        self._record_unreachable(observed, job)
        snapshot = derive_snapshot(observed, job)
        record_slots(snapshot)
        if snapshot.is_readable:
            self._measure(snapshot)
        return snapshot

    def _schedule_resync(self, observed: Observation) -> None:
        job_state, at_s = observed.job_state, observed.monotonic_s
        delay_s = resync_in_s(observed.key.uid, jobs=len(self._sources.jobs))
        if is_unverified(job_state, at_s):
            job_state.applied.clear()
            job_state.resync_at_s = 0.0
        job_state.resync_at_s = job_state.resync_at_s or at_s + delay_s
        if is_due(job_state, observed.pods, at_s) and self.apply_limiter.is_full(observed.key.namespace):
            job_state.resync_at_s = at_s + LATER_S + delay_s

    def _record_unreachable(self, observed: Observation, job: ElasticJob) -> None:
        """Record which silent pods are not replaced, because too many agents of all jobs are silent."""
        job_state, lease_s = observed.job_state, job.spec.rendezvous.keep_alive_s
        agents = sum(pod.running for pod in observed.pods.values())
        silent = silences(job_state.agentless_since_s, observed.pods)
        self._agents.record(observed.key, agents, silent.values())
        now = unreachable_pods(silent, agents=agents, lease_s=lease_s, installation=self._agents.share_silent)
        job_state.record_unreachable(
            now, anew=no_longer_exempt(job_state.unreachable, now, silent), monotonic_s=observed.monotonic_s
        )

    def _measure(self, snapshot: JobSnapshot) -> None:
        in_status, tracker = snapshot.status.rendezvous_round, snapshot.job_state.recovery
        active, recovered = tracker.record(snapshot.view, in_status=in_status)
        if active is not None:
            self._metrics.round_active(snapshot.key, active.cause)
        if recovered is not None:
            self._metrics.recovered(recovered)
            self._observer.recovered(snapshot.key, recovered)
        for start in snapshot.job_state.starts.record(snapshot.view, in_status=in_status):
            self._metrics.workers_started(snapshot.key, start)
        self._metrics.job_health(snapshot.key, job_health(snapshot))
