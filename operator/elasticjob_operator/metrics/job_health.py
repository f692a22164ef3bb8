"""PURE: the state of a job for the metrics: what its time is spent on, and how its agents are.

Coarser than the status on purpose: five states of an agent, three of a job's time, the same for every job.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_operator.model.snapshot import JobSnapshot


class TimeBucket(StrEnum):
    """What a job's time is spent on; suspended and ended jobs spend none."""

    ACTIVE = "active"  # a round is active: workers run, or start
    FORMING = "forming"  # between two rounds
    WAITING = "waiting"  # no round has been active yet


class AgentHealth(StrEnum):
    """How an agent is."""

    WORKING = "working"  # member of the active round
    IDLE = "idle"  # there, and in no active round: a round is forming, or it is a spare
    LEAVING = "leaving"  # told to stop, its workers still may
    STALLED = "stalled"  # its workers are suspected to hang
    MISSING = "missing"  # its pod runs, and no live agent is in it


@dataclass(frozen=True, slots=True)
class JobHealth:
    """One job."""

    bucket: TimeBucket | None
    agents: Mapping[AgentHealth, int]


def job_health(snapshot: JobSnapshot) -> JobHealth:
    """Return the job's state now."""
    return JobHealth(_time_bucket(snapshot), Counter(_agent_health(snapshot)))


def _time_bucket(snapshot: JobSnapshot) -> TimeBucket | None:
    world = snapshot.view.world
    if (
        snapshot.job.spec.suspend
        or snapshot.view.is_final
        or (world is not None and world.state is RoundPhase.SUSPENDED)
    ):
        return None
    if snapshot.view.is_active is not None:
        return TimeBucket.ACTIVE
    return TimeBucket.FORMING if snapshot.view.closed_round else TimeBucket.WAITING


def _agent_health(snapshot: JobSnapshot) -> list[AgentHealth]:
    if snapshot.view.is_final:
        return []
    members = set(snapshot.view.is_active.members) if snapshot.view.is_active is not None else set()
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
