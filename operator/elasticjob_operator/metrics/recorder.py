"""The interface of the operator's counts and measurements; this implementation drops them.

`metrics.py` gives the figures to Prometheus; `elasticjob run` needs none. No method may raise or wait.
"""

from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.status import JobStatus
from elasticjob_operator.metrics.job_health import JobHealth
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample


class MetricsRecorder:
    """Takes everything, and keeps nothing."""

    def status_written(self, key: JobKey, before: JobStatus, after: JobStatus, *, age_s: float | None) -> None:
        """A job's status has changed; `age_s` is the time since the job was created, if that is known."""

    def round_active(self, key: JobKey, cause: Cause) -> None:
        """A round became active."""

    def recovered(self, recovered: RecoverySample) -> None:
        """Record a round's steps, once all agents have reported how long they took."""

    def job_health(self, key: JobKey, health: JobHealth | None) -> None:
        """How a job stands, at each of its turns; None when it is gone."""

    def reconciled(self, *, took_s: float, failed: bool) -> None:
        """One turn of one job."""

    def report(self, *, readable: bool) -> None:
        """An agent's report came through the watch."""

    def watch_event(self, resource: Resource) -> None:
        """Record that a watch delivered something, or was listed anew."""

    def etcd_leases_revoked(self, count: int) -> None:
        """So many leases of etcd had no key, and were ended."""

    def etcd_auth_corrected(self) -> None:
        """A user, role or permission of etcd was not as we had made it, and was corrected."""
