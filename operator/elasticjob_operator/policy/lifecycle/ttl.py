"""When a finished job is deleted: ttlSecondsAfterFinished after completionTime; never if that field is not set."""

from elasticjob_api.job import ElasticJob
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.timestamps import from_rfc3339


def expires_at_s(job: ElasticJob, status: JobStatus) -> float | None:
    """Return when the job is deleted; None while it runs, or without a TTL."""
    ended_s, ttl_s = from_rfc3339(status.completion_time), job.spec.ttl_seconds_after_finished
    return None if ended_s is None or ttl_s is None else ended_s + ttl_s
