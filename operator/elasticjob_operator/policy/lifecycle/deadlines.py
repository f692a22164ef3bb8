"""The deadlines of a job that is to run.

activeDeadlineSeconds counts from startTime; startupDeadlineSeconds counts until a round has enough nodes. Both restart
on resume, because a suspension clears startTime. startupDeadlineSeconds also restarts when the job is scaled, as long
as its round is smaller than the current minReplicas.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from elasticjob_api.constants import FailedReason
from elasticjob_api.job import ElasticJob
from elasticjob_api.job_failure import JobFailure
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.text import node_count_text
from elasticjob_operator.model.timestamps import from_rfc3339


@dataclass(frozen=True, slots=True)
class _Deadline:
    at_s: float
    failure: JobFailure


def exceeded_deadline(job: ElasticJob, status: JobStatus, view: RendezvousView, now_s: float) -> JobFailure | None:
    """Return the failure for the deadline that has passed, or None."""
    return next((d.failure for d in _deadlines(job, status, view) if d.at_s <= now_s), None)


def exceeded_active_deadline(job: ElasticJob, status: JobStatus, now_s: float) -> JobFailure | None:
    """Return the failure for activeDeadlineSeconds, the one deadline that can be checked without the rendezvous."""
    return next((d.failure for d in _active_deadline(job, status) if d.at_s <= now_s), None)


def next_active_deadline_s(job: ElasticJob, status: JobStatus) -> float | None:
    """Return when activeDeadlineSeconds ends; None without one."""
    return next((d.at_s for d in _active_deadline(job, status)), None)


def next_deadline_s(job: ElasticJob, status: JobStatus, view: RendezvousView, now_s: float) -> float | None:
    """Return when the next deadline ends; None without one."""
    return min((d.at_s for d in _deadlines(job, status, view) if d.at_s > now_s), default=None)


def _active_deadline(job: ElasticJob, status: JobStatus) -> Iterator[_Deadline]:
    started_s, life_s = from_rfc3339(status.start_time), job.spec.active_deadline_s
    if started_s is not None and life_s is not None:
        message = f"the job ran longer than activeDeadlineSeconds ({life_s:g})"
        yield _Deadline(started_s + life_s, JobFailure(FailedReason.DEADLINE, message))


def _deadlines(job: ElasticJob, status: JobStatus, view: RendezvousView) -> Iterator[_Deadline]:
    started_s, spec = from_rfc3339(status.start_time), job.spec
    if started_s is None:
        return
    yield from _active_deadline(job, status)
    since_s = max(started_s, from_rfc3339(status.last_scale_time) or 0.0)
    if (startup_s := spec.startup_deadline_s) is not None and not _has_had_quorum(
        status, view, spec.effective_min, since_s
    ):
        fewest = node_count_text(spec.effective_min)
        message = f"fewer than {fewest} joined a round within startupDeadlineSeconds ({startup_s:g})"
        message += f"; {status.message}" if status.message else ""
        yield _Deadline(since_s + startup_s, JobFailure(FailedReason.STARTUP_DEADLINE, message))


def _has_had_quorum(status: JobStatus, view: RendezvousView, lowest: int, since_s: float) -> bool:
    """Return whether a round has had enough nodes since `since_s`.

    The rendezvous shows it now, or the status has recorded it (etcd may have been wiped).
    """
    state = view.state
    if state is not None and state.phase is RoundPhase.FORMING and state.cause is Cause.RESUMED:
        return False
    if view.completed_slots():
        return True  # a round with a finished member keeps its size
    members = state.members if state is not None and state.members else view.membership and view.membership.members
    if members:
        return len(members) >= lowest
    last_s = from_rfc3339(status.last_rendezvous_time)
    return last_s is not None and last_s >= since_s
