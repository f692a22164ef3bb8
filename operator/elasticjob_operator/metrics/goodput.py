"""The state of all jobs together and how they have spent their time, by namespace; no label names a job.

Time is accounted when a job's standing changes and when somebody asks, so a job that runs for days undisturbed
grows its figure at every look. A job that is gone keeps what it has spent: counters never fall.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from elasticjob_operator.metrics.job_health import JobHealth
from elasticjob_operator.model.job_key import JobKey


@dataclass(slots=True)
class Goodput:
    """Of one operator process; `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    _now: dict[JobKey, tuple[JobHealth, float]] = field(default_factory=dict)
    _totals: dict[tuple[str, str], float] = field(default_factory=dict)

    def record(self, key: JobKey, health: JobHealth | None) -> None:
        """The job stands so from now on; None: it is gone."""
        self._add_elapsed(key)
        if health is None:
            self._now.pop(key, None)
        else:
            self._now[key] = health, self.clock()

    def spent_s(self) -> dict[tuple[str, str], float]:
        """Seconds that jobs have spent, by namespace and on what."""
        for key in tuple(self._now):
            self._add_elapsed(key)
        return dict(self._totals)

    def agents(self) -> Counter[tuple[str, str]]:
        """Agents there are, by namespace and health."""
        counts: Counter[tuple[str, str]] = Counter()
        for key, (standing, _) in self._now.items():
            for health, count in standing.agents.items():
                counts[key.namespace, health.value] += count
        return counts

    def _add_elapsed(self, key: JobKey) -> None:
        if (known := self._now.get(key)) is None:
            return
        health, since_s = known
        now_s = self.clock()
        if health.bucket is not None:
            what = key.namespace, health.bucket.value
            self._totals[what] = self._totals.get(what, 0.0) + now_s - since_s
        self._now[key] = health, now_s
