"""PURE: the deadlines of a job that wants to run, and when the next one falls.

activeDeadlineSeconds is the life from startTime; startupDeadlineSeconds runs until the first round with enough
nodes. Both begin anew on resume, because suspending clears startTime.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from elasticjob_api.job import ElasticJob
from elasticjob_api.names import FailedReason
from elasticjob_api.status import JobStatus
from elasticjob_api.world import World
from elasticjob_operator.policy.failure import JobFailure
from elasticjob_operator.timestamps import from_rfc3339


@dataclass(frozen=True, slots=True)
class _Deadline:
    at_s: float
    failure: JobFailure


def broken_deadline(job: ElasticJob, status: JobStatus, world: World | None, now_s: float) -> JobFailure | None:
    """The failure of the deadline that has passed, or None."""
    return next((d.failure for d in _deadlines(job, status, world) if d.at_s <= now_s), None)


def next_deadline_s(job: ElasticJob, status: JobStatus, world: World | None, now_s: float) -> float | None:
    """When the next deadline falls, if there is one."""
    return min((d.at_s for d in _deadlines(job, status, world) if d.at_s > now_s), default=None)


def _deadlines(job: ElasticJob, status: JobStatus, world: World | None) -> Iterator[_Deadline]:
    started_s, spec = from_rfc3339(status.start_time), job.spec
    if started_s is None:
        return
    if (life_s := spec.active_deadline_s) is not None:
        message = f"the job ran longer than activeDeadlineSeconds ({life_s:g})"
        yield _Deadline(started_s + life_s, JobFailure(FailedReason.DEADLINE, message))
    if (startup_s := spec.startup_deadline_s) is not None and not _has_started(status, world, started_s):
        message = f"fewer than {spec.lowest} nodes came together within startupDeadlineSeconds ({startup_s:g})"
        yield _Deadline(started_s + startup_s, JobFailure(FailedReason.STARTUP_DEADLINE, message))


def _has_started(status: JobStatus, world: World | None, started_s: float) -> bool:
    """A round was closed since the start: seen now, or said by the status before."""
    if world is not None and world.members:
        return True
    last_s = from_rfc3339(status.last_rendezvous_time)
    return last_s is not None and last_s >= started_s
