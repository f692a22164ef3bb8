"""The health of a job for the metrics: the state that its time counts for, and the health of its agents.

It is coarser than the status on purpose: five states of an agent and three of a job's time, for every job the same.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from elasticjob_api import constants
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.spec import Keep
from elasticjob_api.status import KeepStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.status.build import is_finished
from elasticjob_operator.policy.status.keep import PERSIST_UNREADABLE, degradation, has_memory_trouble, keep_status


class TimeBucket(StrEnum):
    """The state that a job's time counts for; the time of suspended and finished jobs does not count."""

    ACTIVE = "active"  # a round is active: workers run, or start
    FORMING = "forming"  # between two rounds
    WAITING = "waiting"  # no round has been active yet


class AgentHealth(StrEnum):
    """The health of an agent."""

    WORKING = "working"  # member of the active round
    IDLE = "idle"  # joined, but not in an active round: a round is forming, or the agent is a spare
    LEAVING = "leaving"  # asked to stop; its workers may still run
    STALLED = "stalled"  # its workers are suspected to hang
    MISSING = "missing"  # its pod runs without a live agent


class KeepHealth(StrEnum):
    """The health of the steps in memory, of a job that runs with Keep."""

    COMMITTED = "committed"  # a step would survive the loss of a node
    UNCOMMITTED = "uncommitted"  # none would yet
    DEGRADED = "degraded"  # the condition KeepDegraded is True, and not only because a step could not be persisted


class PersistHealth(StrEnum):
    """The health of the steps on a disk, of a job that runs with `keep.persistTo`."""

    PERSISTED = "persisted"  # a whole step is there
    NONE = "none"  # none is there yet
    LATE = "late"  # a newer step has been committed, and the last one there is older than `LATE_AFTER` intervals
    FAILING = "failing"  # a node could not write the last one
    WAITING = "waiting"  # a node cannot read the directory, and starts no worker until it can


_MAY_BE_LATE = frozenset({PersistHealth.PERSISTED, PersistHealth.NONE})
LATE_AFTER = 3
"""Intervals of `keep.persistEverySeconds` without a new step on the disk after which the job is late."""


@dataclass(frozen=True, slots=True)
class KeepSample:
    """The kept steps of one job in numbers."""

    held_bytes: int = 0
    """In the memory of its nodes."""
    copies: int | None = None
    """Of its committed step; None before the first."""
    committed_at_s: float | None = None
    """Wall clock; None before the first, and if no agent reports it."""
    persisted_at_s: float | None = None
    """Of the newest step on the disk; wall clock. None before the first, and if no agent knows it."""
    late_at_s: float | None = None
    """Wall clock from which the step on the disk is late; None: there is no newer one, or no round is active."""


@dataclass(frozen=True, slots=True)
class JobHealth:
    """The health of one job."""

    bucket: TimeBucket | None
    agents: Mapping[AgentHealth, int]
    keep: KeepHealth | None = None
    """None while Keep is off, and for suspended and finished jobs."""
    kept: KeepSample = KeepSample()
    persist: PersistHealth | None = None
    """None without `keep.persistTo`."""


def job_health(snapshot: JobSnapshot) -> JobHealth:
    """Return the job's health at the snapshot."""
    bucket, agents, keep = _time_bucket(snapshot), Counter(_agent_health(snapshot)), snapshot.job.spec.keep
    if bucket is None or keep is None:
        return JobHealth(bucket, agents)
    kept = keep_status(snapshot) or KeepStatus()
    return JobHealth(
        bucket,
        agents,
        _keep_health(snapshot, kept),
        KeepSample(
            kept.bytes,
            kept.copies,
            from_rfc3339(kept.committed_time),
            persisted_at_s=from_rfc3339(kept.persisted_time),
            late_at_s=_late_at_s(snapshot, keep, kept) if bucket is TimeBucket.ACTIVE else None,
        ),
        None if keep.persist_to is None else _persist_health(snapshot, kept),
    )


def _keep_health(snapshot: JobSnapshot, kept: KeepStatus) -> KeepHealth:
    if has_memory_trouble(snapshot):
        return KeepHealth.DEGRADED
    return KeepHealth.UNCOMMITTED if kept.step is None else KeepHealth.COMMITTED


def persist_health(job: JobHealth, wall_s: float) -> PersistHealth | None:
    """Return the health of a job's steps on the disk at this time; None without `keep.persistTo`."""
    is_late = job.kept.late_at_s is not None and job.kept.late_at_s <= wall_s
    return PersistHealth.LATE if is_late and job.persist in _MAY_BE_LATE else job.persist


def _persist_health(snapshot: JobSnapshot, kept: KeepStatus) -> PersistHealth:
    if degradation(snapshot)[0] == PERSIST_UNREADABLE:
        return PersistHealth.WAITING
    if kept.persist_error:
        return PersistHealth.FAILING
    return PersistHealth.NONE if kept.persisted_step is None else PersistHealth.PERSISTED


def _late_at_s(snapshot: JobSnapshot, keep: Keep, kept: KeepStatus) -> float | None:
    """Return when the step on the disk is late; None if it is the committed one, or nothing is to be persisted."""
    # A script may publish less often than steps are persisted: then the disk has all that there is.
    if keep.persist_to is None or kept.step is None or kept.step == kept.persisted_step:
        return None
    # Nothing is written while a job is suspended, or before one that is created again begins.
    known = [from_rfc3339(each) for each in (kept.persisted_time, snapshot.status.start_time)]
    since_s = max((each for each in known if each is not None), default=None)
    every_s = constants.KEEP_PERSIST_EVERY_S if keep.persist_every_s is None else keep.persist_every_s
    return None if since_s is None else since_s + LATE_AFTER * every_s


def _time_bucket(snapshot: JobSnapshot) -> TimeBucket | None:
    state = snapshot.view.state
    if (
        snapshot.job.spec.suspend
        or is_finished(snapshot.status)  # also if etcd has lost the end
        or snapshot.view.is_final
        or (state is not None and state.phase is RoundPhase.SUSPENDED)
    ):
        return None
    if snapshot.view.active_state is not None:
        return TimeBucket.ACTIVE
    return TimeBucket.FORMING if snapshot.view.closed_round else TimeBucket.WAITING


def _agent_health(snapshot: JobSnapshot) -> list[AgentHealth]:
    if snapshot.view.is_final:
        return []
    members = set(snapshot.view.active_state.members) if snapshot.view.active_state is not None else set()
    found = []
    for member in snapshot.view.agents().values():
        report = snapshot.view.reports.get(member)
        if snapshot.view.nodes[member].record.leaving:
            found.append(AgentHealth.LEAVING)
        elif report is not None and report.stalled_since_ns:
            found.append(AgentHealth.STALLED)
        else:
            found.append(AgentHealth.WORKING if member in members else AgentHealth.IDLE)
    return found + [AgentHealth.MISSING] * len(snapshot.job_state.agentless_since_s)
