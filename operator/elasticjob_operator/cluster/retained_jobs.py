"""Which jobs are kept whole, and which only as their head: what `policy.job_ration` gives a namespace decides."""

from collections.abc import Iterable

from elasticjob_api.job_size import size_of
from elasticjob_operator.informers.transform import MAX_STATUS_BYTES, head, status_memory, with_minimal_status
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.finished_job import has_ended, is_to_stop, minimal_job
from elasticjob_operator.policy.lifecycle.job_memory_quota import JobMemoryQuota

JOBS_MEMORY = 128 << 20
"""For the specs of all jobs: a quarter of what the chart gives an operator."""
_BASE_BYTES = 4 << 10
"""Of a job whatever its spec is."""
NORMAL_STATUS_BYTES = 1 << 20
"""Bytes of memory of a status that count for nothing: an operator writes it, and bounds it."""


class RetainedJobs:
    """The jobs of one API server, as lists and watches show them."""

    def __init__(self, memory: int = JOBS_MEMORY) -> None:
        self._quota = JobMemoryQuota(memory)

    def retain(self, job: Object) -> Object:
        """Return the job, cut down by `slim`, or its head if there is no room for it; one that has ended needs none.

        Of one that is to be suspended enough is kept for that: its user does not have to find room first.
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
        """It was deleted."""
        self._quota.drop(objects.uid_of(job))

    def uids(self) -> set[str]:
        """Of all that were heard of and have not ended."""
        return self._quota.uids()

    def drop_all(self, uids: Iterable[str]) -> None:
        """They are in no list any more."""
        for uid in uids:
            self._quota.drop(uid)


def _memory_of(job: Object) -> int:
    annotations = objects.metadata(job).get("annotations") or {}
    return _BASE_BYTES + size_of(job.get("spec")).memory + size_of(annotations).memory


def _has_started(job: Object) -> bool:
    status = job.get("status") or {}
    return bool(status.get("startTime")) and not status.get("completionTime")
