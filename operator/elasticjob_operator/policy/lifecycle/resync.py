"""PURE: when a new process repeats what its predecessor did: apply a job's service and budget, write its progress.

A restarted operator does not know whether the objects are current, so it applies them again. It spreads this over time
to keep the queue short after its start. Objects that a pod needs which is created now are applied at once.
"""

import contextlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from elasticjob_operator.model.actions import Action, Apply, CreatePod
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod

JOBS_PER_SECOND = 20.0
"""Jobs."""
RESYNC_S = 3000.0
"""So long it is believed that what was applied is still there; nothing watches it, and the hourly sweep is a turn."""


AT_ONCE = 8
"""Jobs to which it happens at the same time. Each has a turn and some room of the API server's meanwhile."""
AT_ONCE_EACH = 6
"""Jobs of one namespace: an admission webhook of it may hang, and leaves some to the others."""
LATER_S = 1.0


def resync_in_s(uid: str, *, jobs: int, jobs_per_second: float = JOBS_PER_SECOND) -> float:
    """How long after the first look at one of so many jobs; always the same for the same job."""
    return zlib.crc32(uid.encode()) / (1 << 32) * jobs / jobs_per_second


def is_unverified(job_state: JobState, monotonic_s: float) -> bool:
    """What was applied may have been deleted by somebody since."""
    return bool(job_state.applied) and monotonic_s >= job_state.resync_at_s + RESYNC_S


def is_due(job_state: JobState, pods: Mapping[str, Pod], monotonic_s: float) -> bool:
    """It would happen now, and nothing waits for it."""
    return bool(pods) and not job_state.applied and monotonic_s >= job_state.resync_at_s


def is_resync_due(job_state: JobState, pods: Mapping[str, Pod], monotonic_s: float) -> bool:
    """It is time, or nobody can have applied anything before."""
    return bool(job_state.applied) or not pods or monotonic_s >= job_state.resync_at_s


class ApplyLimiter:
    """The jobs to which it happens at this moment, by namespace."""

    def __init__(self) -> None:
        """None yet."""
        self._jobs: Counter[str] = Counter()

    def is_full(self, namespace: str) -> bool:
        """Return whether another job of this namespace has to be put off."""
        return self._jobs.total() >= AT_ONCE or self._jobs[namespace] >= AT_ONCE_EACH

    @contextlib.contextmanager
    def of(self, namespace: str, actions: Iterable[Action]) -> Iterator[None]:
        """Count a job while these actions are done, unless pods are created: that may take long, and has its limit."""
        kinds = {type(action) for action in actions}
        counted = Apply in kinds and CreatePod not in kinds
        self._jobs[namespace] += counted
        try:
            yield
        finally:
            self._jobs[namespace] -= counted
            if not self._jobs[namespace]:
                del self._jobs[namespace]
