"""PURE: the state of a job for the metrics: what its time is spent on, and how its agents are.

Coarser than the status on purpose: five states of an agent, three of a job's time, the same for every job.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from elasticjob_api.rendezvous_state import State
from elasticjob_operator.model.snapshot import Observed


class Spent(StrEnum):
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
class Standing:
    """One job."""

    spent: Spent | None
    agents: Mapping[AgentHealth, int]


def standing(seen: Observed) -> Standing:
    """Return the job's state now."""
    return Standing(_spent(seen), Counter(_agents(seen)))


def _spent(seen: Observed) -> Spent | None:
    world = seen.view.world
    if seen.job.spec.suspend or seen.view.final or (world is not None and world.state is State.SUSPENDED):
        return None
    if seen.view.active is not None:
        return Spent.ACTIVE
    return Spent.FORMING if seen.view.closed_round else Spent.WAITING


def _agents(seen: Observed) -> list[AgentHealth]:
    if seen.view.final:
        return []
    members = set(seen.view.active.members) if seen.view.active is not None else set()
    found = []
    for member in seen.view.agents().values():
        report = seen.view.reports.get(member)
        if seen.view.nodes[member].record.leaving:
            found.append(AgentHealth.LEAVING)
        elif report is not None and report.stalled_since_ns:
            found.append(AgentHealth.STALLED)
        else:
            found.append(AgentHealth.WORKING if member in members else AgentHealth.IDLE)
    return found + [AgentHealth.MISSING] * len(seen.ledger.agentless_since_s)
