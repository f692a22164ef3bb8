"""Numbers of agents of all jobs in this installation, and times at which agents fell silent."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.slots.unreachable_agents import MIN_AGENTS, Silence


@dataclass(slots=True)
class AgentCounts:
    """The agents of all jobs; each reconcile of a job updates its part."""

    _agents: dict[JobKey, int] = field(default_factory=dict)
    _silent_since_s: dict[JobKey, tuple[Silence, ...]] = field(default_factory=dict)
    _all: int = 0

    def record(self, key: JobKey, agents: int, silences: Iterable[Silence]) -> None:
        """Record the number of agents that a job should have now, and the silent ones."""
        self.forget(key)
        if agents:
            self._agents[key] = agents
            self._all += agents
        if silent := tuple(silences):
            self._silent_since_s[key] = silent

    def forget(self, key: JobKey) -> None:
        """Remove the job from the counts."""
        self._all -= self._agents.pop(key, 0)
        self._silent_since_s.pop(key, None)

    def share_silent(self, begin_s: float, end_s: float) -> float:
        """Return the share of all agents whose failure domains fell silent in this interval.

        Several agents of one failure domain count once. 0 for fewer than `MIN_AGENTS` domains.
        """
        every = (silence for silent in self._silent_since_s.values() for silence in silent)
        domains = {silence.domain for silence in every if begin_s <= silence.since_s <= end_s}
        return len(domains) / self._all if len(domains) >= MIN_AGENTS and self._all else 0.0
