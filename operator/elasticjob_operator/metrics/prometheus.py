"""The operator's metrics for Prometheus; the only module that imports its client.

No label names a job: there are thousands of jobs, and new ones all the time. Gauges (jobs by phase, age of a watch) are
computed at each scrape, so that they are correct after every deletion and restart. Counters begin at 0 with the
process, as Prometheus expects.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.metrics.goodput import Goodput
from elasticjob_operator.metrics.job_health import JobHealth
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import NO_FAULT, RESIZE, RecoverySample
from elasticjob_operator.model.worker_starts import StartSample
from elasticjob_operator.policy.status.conditions import is_true

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_STEP_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_RECONCILE_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
WARM, COLD = "warm", "cold"
"""Values of the label `start`."""
_COUNTS = {
    "restarts": "Worker failures that restarted the workers.",
    "node_losses": "Rounds opened because nodes were lost.",
    "pod_replacements": "Failed pods that were replaced and counted.",
}

_NOW_LABELS = {
    "elasticjob_phase": ("namespace", "phase"),
    "elasticjob_left_alone": ("namespace", "reason"),
    "elasticjob_watch_age_seconds": ("resource",),
    "elasticjob_job_seconds_total": ("namespace", "state"),
    "elasticjob_agents": ("namespace", "health"),
    "elasticjob_keep_jobs": ("namespace", "keep"),
    "elasticjob_keep_held_bytes": ("namespace",),
    "elasticjob_keep_copies": ("namespace",),
    "elasticjob_keep_committed_age_seconds": ("namespace",),
    "elasticjob_keep_persist_jobs": ("namespace", "persist"),
    "elasticjob_keep_persisted_age_seconds": ("namespace",),
    "elasticjob_queue_depth": (),
    "elasticjob_leader": (),
}

Phases = Callable[[], Mapping[tuple[str, str], int]]
Labels = TypeVar("Labels", tuple[str], tuple[str, str])


class PrometheusRecorder(MetricsRecorder):
    """The metrics of one process, in a registry of their own."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        """`clock` and `wall` return seconds; `wall` is for comparison with times of the agents."""
        self._clock, self._wall = clock, wall
        self._registry = CollectorRegistry()
        self._last_event_s: dict[Resource, float] = {}
        self.labels: dict[str, tuple[str, ...]] = {}
        """Labels of each metric by its name, for the reference."""
        self._created = self._counter("created", "Jobs with a first status.", "namespace")
        self._succeeded = self._counter("succeeded", "Jobs that succeeded.", "namespace")
        self._failed = self._counter("failed", "Jobs that failed.", "namespace", "reason")
        self._resizes = self._counter("resizes", "Changes of the desired number of nodes.", "namespace")
        self._counts = {name: self._counter(name, text, "namespace") for name, text in _COUNTS.items()}
        self._skipped = self._counter(
            "keep_skipped", "Steps that nodes dropped, uncopied, for newer ones.", "namespace"
        )
        self._commits = self._counter(
            "keep_commits", "Committed steps that the operator has seen; a report has the newest only.", "namespace"
        )
        self._copy_s = self._histogram(
            "keep_copy",
            "From the first part of a step on a node to its commit, for the steps above.",
            buckets=_STEP_SECONDS,
        )
        self._restore_s = self._histogram(
            "keep_restore",
            "From an active round to its kept step being on all nodes, for rounds that restore one.",
            buckets=_STEP_SECONDS,
        )
        self._reports = self._counter("agent_reports", "Reports of agents.", "code")
        self._reconcile_errors = self._counter("reconcile_errors", "Reconciles that failed.")
        self._leases_revoked = self._counter("etcd_leases_revoked", "Leases of etcd without a key that were revoked.")
        self._auth_corrections = self._counter(
            "etcd_auth_corrections",
            "Users, roles and permissions of etcd that the operator did not create, and removed.",
        )
        self._running_s = self._histogram("time_to_running", "From a job's creation to its first active round.")
        self._rounds = self._counter("rounds", "Rounds that became active.", "namespace", "cause")
        self._step_s = self._histogram(
            "recovery_step",
            "A step of a round after a fault or a resize, by the agents' clocks: detect, stop, agree or start.",
            "cause",
            "step",
            buckets=_STEP_SECONDS,
        )
        self._recovery_s = self._histogram(
            "recovery", "From a fault to the start of the next round's workers.", "cause", buckets=_STEP_SECONDS
        )
        self._resize_s = self._histogram("resize", "The same after a change of size.", buckets=_STEP_SECONDS)
        self._starts = self._counter(
            "worker_starts", "Workers of jobs with warm starts, by their start.", "namespace", "cause", "start"
        )
        self._first_output_s = self._histogram(
            "first_output",
            "From the start of a node's workers to the first byte that one of them writes, with warm starts.",
            "start",
            buckets=_STEP_SECONDS,
        )
        self._goodput = Goodput(clock)
        self._reconcile_s = self._histogram("reconcile", "One reconcile of one job.", buckets=_RECONCILE_SECONDS)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        self.labels[f"elasticjob_{name}_total"] = labels
        return Counter(f"elasticjob_{name}", what, labelnames=labels, registry=self._registry)

    def _histogram(self, name: str, what: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        self.labels[f"elasticjob_{name}_seconds"] = labels
        return Histogram(
            f"elasticjob_{name}_seconds", what, labelnames=labels, buckets=buckets, registry=self._registry
        )

    def serve_state(
        self,
        phases: Phases,
        depth: Callable[[], int],
        leads: Callable[[], bool] = lambda: True,
        unmanaged: Phases = dict,
    ) -> None:
        """Register the gauges that are computed at each scrape.

        Args:
            phases: the number of jobs by namespace and phase.
            depth: the number of jobs that wait for a reconcile or are being reconciled.
            leads: whether this process leads.
            unmanaged: the number of unmanaged jobs by namespace and reason.
        """
        self.labels |= _NOW_LABELS
        self._registry.register(
            _CurrentState(phases, unmanaged, depth, leads, ages=self.ages, goodput=self._goodput, wall=self._wall)
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def ages(self) -> dict[Resource, float]:
        """Return the seconds since each watch last delivered an event."""
        return {resource: self._clock() - at_s for resource, at_s in self._last_event_s.items()}

    # The methods of `MetricsRecorder`.

    def status_written(self, key: JobKey, before: JobStatus, after: JobStatus, *, age_s: float | None) -> None:
        """Count the changes between two statuses of a job."""
        space = key.namespace  # each change is in one status write only, so nothing is counted twice
        if not before.conditions:
            self._created.labels(space).inc()
        if before.desired_replicas not in {0, after.desired_replicas}:
            self._resizes.labels(space).inc()
        for name, counter in self._counts.items():
            if (more := getattr(after, name) - getattr(before, name)) > 0:
                counter.labels(space).inc(more)
        self._steps_kept(space, before.keep or KeepStatus(), after.keep or KeepStatus())
        if age_s is not None and after.last_rendezvous_time and not before.last_rendezvous_time:
            self._running_s.observe(age_s)
        if _became_true(before, after, ConditionType.COMPLETE):
            self._succeeded.labels(space).inc()
        if _became_true(before, after, ConditionType.FAILED):
            self._failed.labels(space, after.reason).inc()

    def _steps_kept(self, space: str, before: KeepStatus, after: KeepStatus) -> None:
        if after.skipped > before.skipped:
            self._skipped.labels(space).inc(after.skipped - before.skipped)
        if after.step is not None and (after.round, after.step) != (before.round, before.step):
            self._commits.labels(space).inc()
            if after.copy_milliseconds is not None:
                self._copy_s.observe(after.copy_milliseconds / 1000)

    def round_active(self, key: JobKey, cause: Cause) -> None:
        """Count an active round by its cause."""
        self._rounds.labels(key.namespace, cause.value).inc()

    def recovered(self, recovered: RecoverySample) -> None:
        """Observe the steps of a recovery."""
        cause = recovered.cause
        if (restore_s := recovered.steps.get("restore")) is not None:
            self._restore_s.observe(restore_s)
        if cause in NO_FAULT:
            return  # a first round is no recovery
        for step, took_s in recovered.steps.items():
            self._step_s.labels(cause.value, step).observe(took_s)
        total_s = self._resize_s if cause in RESIZE else self._recovery_s.labels(cause.value)
        total_s.observe(recovered.total_s)

    def workers_started(self, key: JobKey, start: StartSample) -> None:
        """Count the workers of a node by their start, and observe their first output."""
        for kind, count in ((WARM, start.warm), (COLD, start.cold)):
            if count:
                self._starts.labels(key.namespace, start.cause.value, kind).inc(count)
        if start.first_output_s is not None:
            self._first_output_s.labels(WARM if start.is_warm else COLD).observe(start.first_output_s)

    def job_health(self, key: JobKey, health: JobHealth | None) -> None:
        """Record a job's health from now on; None for a deleted job."""
        self._goodput.record(key, health)
        if health is not None:
            for counter in self._counts.values():  # from 0 on: increase() misses what a new counter begins with
                counter.labels(key.namespace)

    def reconciled(self, *, took_s: float, failed: bool) -> None:
        """Observe the duration of a reconcile, and count a failed one."""
        self._reconcile_s.observe(took_s)
        if failed:
            self._reconcile_errors.inc()

    def report(self, *, readable: bool) -> None:
        """Count a report by whether it was readable."""
        self._reports.labels("ok" if readable else "unreadable").inc()

    def etcd_leases_revoked(self, count: int) -> None:
        """Count revoked leases."""
        self._leases_revoked.inc(count)

    def etcd_auth_corrected(self) -> None:
        """Count a correction of etcd's users and roles."""
        self._auth_corrections.inc()

    def watch_event(self, resource: Resource) -> None:
        """Reset the age of a watch."""
        self._last_event_s[resource] = self._clock()


def _became_true(before: JobStatus, after: JobStatus, name: ConditionType) -> bool:
    return is_true(after.conditions, name) and not is_true(before.conditions, name)


class _CurrentState(Collector):
    """Gauges that are computed at each scrape."""

    def __init__(
        self,
        phases: Phases,
        unmanaged: Phases,
        depth: Callable[[], int],
        leads: Callable[[], bool],
        *,
        ages: Callable[[], Mapping[Resource, float]],
        goodput: Goodput,
        wall: Callable[[], float],
    ) -> None:
        self._wall = wall
        self._leads = leads
        self._unmanaged = unmanaged
        self._goodput = goodput
        self._phases = phases
        self._depth = depth
        self._ages = ages

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics."""
        phases = {(namespace, phase or Phase.PENDING): count for (namespace, phase), count in self._phases().items()}
        yield _gauge("elasticjob_phase", "Jobs in this phase.", phases)
        reason = "Jobs for which this installation does nothing, by reason."
        yield _gauge("elasticjob_left_alone", reason, self._unmanaged())
        ages = {(resource.value,): age_s for resource, age_s in self._ages().items()}
        yield _gauge("elasticjob_watch_age_seconds", "Seconds since a watch delivered an event or was listed.", ages)
        spent = CounterMetricFamily(
            "elasticjob_job_seconds",
            "Seconds that jobs have spent in an active round, forming the next, or waiting for the first.",
            labels=_NOW_LABELS["elasticjob_job_seconds_total"],
        )
        for (namespace, state), seconds in sorted(self._goodput.spent_s().items()):
            spent.add_metric([namespace, state], seconds)
        yield spent
        yield _gauge("elasticjob_agents", "Agents by health.", self._goodput.agents())
        yield from self._keep()
        yield GaugeMetricFamily(
            "elasticjob_queue_depth", "Jobs that wait for a reconcile or are reconciled.", self._depth()
        )
        leads = "1: this replica leads and acts; 0: it is a standby."
        yield GaugeMetricFamily("elasticjob_leader", leads, float(self._leads()))

    def _keep(self) -> Iterable[Metric]:
        jobs = "Jobs that run with Keep, by the health of their steps in memory."
        yield _gauge("elasticjob_keep_jobs", jobs, self._goodput.keeping())
        held = "Bytes of kept steps in the memory of nodes, with all copies."
        yield _gauge("elasticjob_keep_held_bytes", held, _by_namespace(self._goodput.held_bytes()))
        copies = "Fewest other nodes that hold a part of the committed step of a job."
        yield _gauge("elasticjob_keep_copies", copies, _by_namespace(self._goodput.fewest_copies()))
        age = "Seconds since the last commit of a step, of the job for which they are most."
        now_s = self._wall()
        yield _gauge("elasticjob_keep_committed_age_seconds", age, _ages(self._goodput.oldest_commit_s(), now_s))
        persisting = "Jobs that run with keep.persistTo, by the health of their steps there."
        yield _gauge("elasticjob_keep_persist_jobs", persisting, self._goodput.persisting(now_s))
        age = "Seconds since the newest step in keep.persistTo became whole, of the job for which they are most."
        yield _gauge("elasticjob_keep_persisted_age_seconds", age, _ages(self._goodput.oldest_persisted_s(), now_s))


def _ages(moments_s: Mapping[str, float], now_s: float) -> dict[tuple[str], float]:
    return _by_namespace({space: max(0.0, now_s - at_s) for space, at_s in moments_s.items()})


def _by_namespace(values: Mapping[str, float]) -> dict[tuple[str], float]:
    return {(namespace,): value for namespace, value in values.items()}


def _gauge(name: str, what: str, values: Mapping[Labels, float]) -> Metric:
    found = GaugeMetricFamily(name, what, labels=_NOW_LABELS[name])
    for labels, value in sorted(values.items()):
        found.add_metric(list(labels), value)
    return found
