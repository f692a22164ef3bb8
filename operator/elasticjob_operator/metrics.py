"""The operator's figures for Prometheus; the only file that imports its client.

No label names a job: there are thousands of them, and they come and go. What can be counted anew (jobs by phase, age of
a watch) is counted when somebody asks, so that it is the truth after every deletion and restart; counters begin at 0
with the process, as Prometheus expects.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from elasticjob_api.names import ConditionType, Phase
from elasticjob_api.status import JobStatus
from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.meter import Meter
from elasticjob_operator.policy.conditions import holds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_TURN_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
_COUNTS = {
    "restarts": "Worker failures that restarted the workers.",
    "node_losses": "Rounds opened because nodes were lost.",
    "pod_replacements": "Failed pods that were replaced and counted.",
}

Phases = Callable[[], Mapping[tuple[str, str], int]]


class PrometheusMeter(Meter):
    """One registry; `phases` tells how many jobs there are by namespace and phase."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._heard_s: dict[Resource, float] = {}
        self._created = self._counter("created", "Jobs taken up.", "namespace")
        self._succeeded = self._counter("succeeded", "Jobs that succeeded.", "namespace")
        self._failed = self._counter("failed", "Jobs that failed.", "namespace", "reason")
        self._resizes = self._counter("resizes", "Changes of the number of nodes wanted.", "namespace")
        self._counts = {name: self._counter(name, what, "namespace") for name, what in _COUNTS.items()}
        self._reports = self._counter("agent_reports", "Reports of agents.", "code")
        self._turn_errors = self._counter("reconcile_errors", "Turns that failed.")
        self._running_s = self._histogram("time_to_running", "From a job's creation to its first active round.")
        self._recovery_s = self._histogram("recovery", "From a fault's round being opened to its being active.")
        self._resize_s = self._histogram("resize", "From a resize's round being opened to its being active.")
        self._turn_s = self._histogram("reconcile", "One turn of one job.", buckets=_TURN_SECONDS)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"elasticjob_{name}", what, labelnames=labels, registry=self._registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"elasticjob_{name}_seconds", what, buckets=buckets, registry=self._registry)

    def show(self, phases: Phases, depth: Callable[[], int]) -> None:
        """What is counted anew each time: jobs by phase, and jobs that wait for their turn."""
        self._registry.register(_Now(phases, depth, self.ages))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)

    def ages(self) -> dict[Resource, float]:
        """Seconds since each watch was last heard of."""
        return {resource: self._clock() - at_s for resource, at_s in self._heard_s.items()}

    # Meter

    def status_written(self, key: JobKey, before: JobStatus, after: JobStatus, *, age_s: float | None) -> None:
        """Counters follow the status, which never tells a change twice."""
        space = key.namespace
        if not before.conditions:
            self._created.labels(space).inc()
        if before.desired_replicas not in {0, after.desired_replicas}:
            self._resizes.labels(space).inc()
        for name, counter in self._counts.items():
            if (more := getattr(after, name) - getattr(before, name)) > 0:
                counter.labels(space).inc(more)
        if age_s is not None and after.last_rendezvous_time and not before.last_rendezvous_time:
            self._running_s.observe(age_s)
        if _begins(before, after, ConditionType.COMPLETE):
            self._succeeded.labels(space).inc()
        if _begins(before, after, ConditionType.FAILED):
            self._failed.labels(space, after.reason).inc()

    def round_closed(self, *, after_s: float, resize: bool) -> None:
        """Faults and resizes are told apart."""
        (self._resize_s if resize else self._recovery_s).observe(after_s)

    def turned(self, *, took_s: float, failed: bool) -> None:
        """Time and errors."""
        self._turn_s.observe(took_s)
        if failed:
            self._turn_errors.inc()

    def report(self, *, readable: bool) -> None:
        """By whether it could be read."""
        self._reports.labels("ok" if readable else "unreadable").inc()

    def heard(self, resource: Resource) -> None:
        """The age of a watch begins anew."""
        self._heard_s[resource] = self._clock()


def _begins(before: JobStatus, after: JobStatus, name: ConditionType) -> bool:
    return holds(after.conditions, name) and not holds(before.conditions, name)


class _Now(Collector):
    """Gauges that are looked up when somebody asks."""

    def __init__(self, phases: Phases, depth: Callable[[], int], ages: Callable[[], Mapping[Resource, float]]) -> None:
        self._phases = phases
        self._depth = depth
        self._ages = ages

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """All of them."""
        jobs = GaugeMetricFamily("elasticjob_phase", "Jobs in this phase.", labels=["namespace", "phase"])
        for (namespace, phase), count in sorted(self._phases().items()):
            jobs.add_metric([namespace, phase or Phase.PENDING], count)
        yield jobs
        ages = GaugeMetricFamily(
            "elasticjob_watch_age_seconds", "Since a watch told anything or was listed.", labels=["resource"]
        )
        for resource, age_s in self._ages().items():
            ages.add_metric([resource.value], age_s)
        yield ages
        yield GaugeMetricFamily("elasticjob_queue_depth", "Jobs that wait for their turn or have it.", self._depth())
