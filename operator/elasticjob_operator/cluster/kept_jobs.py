"""Which jobs are kept whole, and which only as their head: what `policy.job_ration` gives a namespace decides."""

from collections.abc import Iterable

from elasticjob_api.job_size import size_of
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.cluster.slim import head
from elasticjob_operator.policy.job_ration import JobRation

JOBS_MEMORY = 128 << 20
"""For the specs of all jobs: a quarter of what the chart gives an operator."""
_EACH = 4 << 10
"""Of a job whatever its spec is."""


class KeptJobs:
    """The jobs of one API server, as lists and watches show them."""

    def __init__(self, memory: int = JOBS_MEMORY) -> None:
        self._ration = JobRation(memory)

    def keep(self, job: Object) -> Object:
        """Return the job, cut down by `slim`, or its head if there is no room for it."""
        uid = objects.uid_of(job)
        if objects.unkept(job):
            self._ration.drop(uid)
            return job
        share = self._ration.take(uid, objects.namespace_of(job), _memory_of(job), begun=_has_begun(job))
        return job if share is None else head(job, share.refusal(objects.namespace_of(job)))

    def drop(self, job: Object) -> None:
        """It was deleted."""
        self._ration.drop(objects.uid_of(job))

    def uids(self) -> set[str]:
        """Of all that are kept whole."""
        return self._ration.uids()

    def drop_all(self, uids: Iterable[str]) -> None:
        """They are in no list any more."""
        for uid in uids:
            self._ration.drop(uid)


def _memory_of(job: Object) -> int:
    annotations = objects.metadata(job).get("annotations") or {}
    return _EACH + size_of(job.get("spec")).memory + size_of(annotations).memory


def _has_begun(job: Object) -> bool:
    status = job.get("status") or {}
    return bool(status.get("startTime")) and not status.get("completionTime")
