"""When the status of a job expires without etcd: two report periods after etcd has stopped answering."""

from elasticjob_api.constants import ConditionType
from elasticjob_api.job import ElasticJob
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.timestamps import from_rfc3339

REPORT_PERIODS = 2
"""Report periods until the status expires: every agent reports at least once per period."""


def etcd_unavailable_since(status: JobStatus) -> str:
    """Return since when RendezvousUnavailable is True, according to the status; empty while etcd answers."""
    wanted = (ConditionType.RENDEZVOUS_UNAVAILABLE, "True")
    return next((c.last_transition_time for c in status.conditions if (c.type, c.status) == wanted), "")


def status_expires_at_s(job: ElasticJob, status: JobStatus) -> float | None:
    """Return from when the status must not claim that workers run; None while etcd answers."""
    since_s = from_rfc3339(etcd_unavailable_since(status))
    return None if since_s is None else since_s + REPORT_PERIODS * job.spec.agent.report_period_s
