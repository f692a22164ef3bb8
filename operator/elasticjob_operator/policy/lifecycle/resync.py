"""When a new process repeats what its predecessor did: apply a job's service and budget, write its progress.

A restarted operator does not know whether the objects are current, so it applies them again. It spreads this over time
to keep the queue short after its start. If pods are created now, the objects that they need are applied at once.
"""

import contextlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from elasticjob_operator.model.actions import Action, Apply, CreatePod
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod

JOBS_PER_SECOND = 20.0
"""Jobs that are resynced per second."""
RESYNC_S = 3000.0
"""Seconds after which applied objects are applied again, by the next hourly reconcile: no watch covers them."""


AT_ONCE = 8
"""Most jobs that are resynced at the same time. Each occupies a worker and part of the API server's flow control."""
AT_ONCE_EACH = 6
"""Most jobs of one namespace at the same time: its admission webhook may hang, and other namespaces must not wait."""
LATER_S = 1.0


def resync_in_s(uid: str, *, jobs: int, jobs_per_second: float = JOBS_PER_SECOND) -> float:
    """Return the delay in seconds after the first look at one of `jobs` jobs; always the same for the same job."""
    return zlib.crc32(uid.encode()) / (1 << 32) * jobs / jobs_per_second


def is_unverified(job_state: JobState, monotonic_s: float) -> bool:
    """Return whether the applied objects may have been deleted since."""
    return bool(job_state.applied) and monotonic_s >= job_state.resync_at_s + RESYNC_S


def is_due(job_state: JobState, pods: Mapping[str, Pod], monotonic_s: float) -> bool:
    """Return whether the job would be resynced now, without anything that waits for it."""
    return bool(pods) and not job_state.applied and monotonic_s >= job_state.resync_at_s


def is_resync_due(job_state: JobState, pods: Mapping[str, Pod], monotonic_s: float) -> bool:
    """Return whether it is time to apply the objects, or whether no earlier process can have applied them."""
    return bool(job_state.applied) or not pods or monotonic_s >= job_state.resync_at_s


class ApplyLimiter:
    """The jobs that are being resynced now, by namespace."""

    def __init__(self) -> None:
        """Start without jobs."""
        self._jobs: Counter[str] = Counter()

    def is_full(self, namespace: str) -> bool:
        """Return whether another job of this namespace has to wait."""
        return self._jobs.total() >= AT_ONCE or self._jobs[namespace] >= AT_ONCE_EACH

    @contextlib.contextmanager
    def of(self, namespace: str, actions: Iterable[Action]) -> Iterator[None]:
        """Count a job while these actions run, unless they create pods: that may take long and has its own limit."""
        kinds = {type(action) for action in actions}
        counted = Apply in kinds and CreatePod not in kinds
        self._jobs[namespace] += counted
        try:
            yield
        finally:
            self._jobs[namespace] -= counted
            if not self._jobs[namespace]:
                del self._jobs[namespace]
