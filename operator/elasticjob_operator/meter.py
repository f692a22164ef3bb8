"""What the operator counts and measures, without knowing who wants to know: here nobody does.

`metrics.py` gives the figures to Prometheus; `elasticjob run` needs none. No method may raise or wait.
"""

from elasticjob_api.status import JobStatus
from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.jobkey import JobKey


class Meter:
    """Takes everything, and keeps nothing."""

    def status_written(self, key: JobKey, before: JobStatus, after: JobStatus, *, age_s: float | None) -> None:
        """A job's status has changed; `age_s` is the time since the job was created, if that is known."""

    def round_closed(self, *, after_s: float, resize: bool) -> None:
        """A round became active so long after it was opened, for a change of size or after a fault."""

    def turned(self, *, took_s: float, failed: bool) -> None:
        """One turn of one job."""

    def report(self, *, readable: bool) -> None:
        """An agent's report came through the watch."""

    def heard(self, resource: Resource) -> None:
        """A watch has told something, or was listed anew."""
