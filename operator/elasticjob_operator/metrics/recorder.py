"""The interface for the operator's counts and measurements, and an implementation that drops them.

`prometheus.py` exports them to Prometheus; `elasticjob run` needs none. No method may raise or wait.
"""

from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.status import JobStatus
from elasticjob_operator.metrics.job_health import JobHealth
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample
from elasticjob_operator.model.worker_starts import StartSample


class MetricsRecorder:
    """A recorder that ignores every call."""

    def status_written(self, key: JobKey, before: JobStatus, after: JobStatus, *, age_s: float | None) -> None:
        """Record the change of a job's status; `age_s` is the time since the job was created, or None if unknown."""

    def round_active(self, key: JobKey, cause: Cause) -> None:
        """Record that a round became active."""

    def recovered(self, recovered: RecoverySample) -> None:
        """Record the durations of a round's steps, once all agents have reported them."""

    def workers_started(self, key: JobKey, start: StartSample) -> None:
        """Record how the workers of a node were started, or their first output."""

    def job_health(self, key: JobKey, health: JobHealth | None) -> None:
        """Record a job's health, at each of its reconciles; None for a deleted job."""

    def reconciled(self, *, took_s: float, failed: bool) -> None:
        """Record one reconcile of one job."""

    def report(self, *, readable: bool) -> None:
        """Record an agent's report that the watch delivered."""

    def watch_event(self, resource: Resource) -> None:
        """Record that a watch delivered an event or was listed again."""

    def etcd_leases_revoked(self, count: int) -> None:
        """Record the number of leases without keys that were revoked."""

    def etcd_auth_corrected(self) -> None:
        """Record that a user, role or permission of etcd differed from what this installation created."""
