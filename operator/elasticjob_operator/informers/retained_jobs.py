"""The choice of jobs that are cached whole or as a head, by the memory quota of a namespace (`JobMemoryQuota`)."""

from collections.abc import Iterable

from elasticjob_api.job_size import size_of
from elasticjob_operator.informers.transform import MAX_STATUS_BYTES, head, status_memory, with_minimal_status
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_end import has_ended, is_to_stop
from elasticjob_operator.model.minimal_job import minimal_job
from elasticjob_operator.policy.lifecycle.job_memory_quota import JobMemoryQuota

JOBS_MEMORY = 128 << 20
"""Bytes for the specs of all jobs: a quarter of the operator's memory in the chart."""
_BASE_BYTES = 4 << 10
"""Bytes that every job counts, besides its spec."""
NORMAL_STATUS_BYTES = 1 << 20
"""Bytes of a status that do not count, because the operator writes it and bounds its size."""


class RetainedJobs:
    """The memory of the jobs that lists and watches of one API server deliver."""

    def __init__(self, memory: int = JOBS_MEMORY) -> None:
        self._quota = JobMemoryQuota(memory)

    def retain(self, job: Object) -> Object:
        """Return the part of the job to cache: all of it, or only its head if it exceeds the quota.

        A finished job does not count. A job that shall be suspended keeps the fields for that, so its user need not
        free memory first.
        """
        uid, namespace, status = objects.uid_of(job), objects.namespace_of(job), status_memory(job)
        small = with_minimal_status(job) if status > NORMAL_STATUS_BYTES else job
        job, beyond = (small, 0) if status > MAX_STATUS_BYTES else (job, max(0, status - NORMAL_STATUS_BYTES))
        if objects.not_retained_reason(job):
            self._quota.refuse(uid, namespace)
            return small
        if (ended := has_ended(job)) and not beyond:
            self._quota.drop(uid)
            return job
        share = self._quota.reserve(
            uid, namespace, beyond + (0 if ended else _memory_of(job)), started=_has_started(job)
        )
        if share is None:
            return job
        if ended:
            return small
        return minimal_job(small) if is_to_stop(small) else head(small, share.rejection(namespace))

    def drop(self, job: Object) -> None:
        """Free the memory of a deleted job."""
        self._quota.drop(objects.uid_of(job))

    def uids(self) -> set[str]:
        """Return the uids of all known jobs that count."""
        return self._quota.uids()

    def drop_all(self, uids: Iterable[str]) -> None:
        """Free the memory of jobs that a list no longer contains."""
        for uid in uids:
            self._quota.drop(uid)


def _memory_of(job: Object) -> int:
    annotations = objects.metadata(job).get("annotations") or {}
    return _BASE_BYTES + size_of(job.get("spec")).memory + size_of(annotations).memory


def _has_started(job: Object) -> bool:
    status = job.get("status") or {}
    return bool(status.get("startTime")) and not status.get("completionTime")
