"""When a status expires that nothing confirms any more: two report periods after etcd has stopped answering."""

from elasticjob_api.constants import ConditionType
from elasticjob_api.job import ElasticJob
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.timestamps import from_rfc3339

REPORT_PERIODS = 2
"""An agent reports at least once in reportPeriodSeconds: after two of them its last word is too old to repeat."""


def etcd_unavailable_since(status: JobStatus) -> str:
    """The moment from which RendezvousUnavailable is True, as the status has it; empty while etcd answers."""
    wanted = (ConditionType.RENDEZVOUS_UNAVAILABLE, "True")
    return next((c.last_transition_time for c in status.conditions if (c.type, c.status) == wanted), "")


def status_expires_at_s(job: ElasticJob, status: JobStatus) -> float | None:
    """The moment from which nothing supports what the status claims of agents; None while etcd answers."""
    since_s = from_rfc3339(etcd_unavailable_since(status))
    return None if since_s is None else since_s + REPORT_PERIODS * job.spec.agent.report_period_s
