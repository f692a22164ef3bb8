"""The health of all jobs and the time in each state, by namespace; no label names a job.

Time is counted when a job's health changes and at each scrape. So the counter of a job that runs for days grows at
every scrape. The time of a deleted job remains counted: counters never fall.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from elasticjob_operator.metrics.job_health import JobHealth, KeepSample, persist_health
from elasticjob_operator.model.job_key import JobKey

N = TypeVar("N", int, float)


@dataclass(slots=True)
class Goodput:
    """The goodput of one operator process; `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    _now: dict[JobKey, tuple[JobHealth, float]] = field(default_factory=dict)
    _totals: dict[tuple[str, str], float] = field(default_factory=dict)

    def record(self, key: JobKey, health: JobHealth | None) -> None:
        """Record a job's health from now on; None for a deleted job."""
        self._add_elapsed(key)
        if health is None:
            self._now.pop(key, None)
        else:
            self._now[key] = health, self.clock()

    def spent_s(self) -> dict[tuple[str, str], float]:
        """Return the seconds that jobs have spent, by namespace and state."""
        for key in tuple(self._now):
            self._add_elapsed(key)
        return dict(self._totals)

    def agents(self) -> Counter[tuple[str, str]]:
        """Return the number of agents, by namespace and health."""
        counts: Counter[tuple[str, str]] = Counter()
        for key, (job, _) in self._now.items():
            for health, count in job.agents.items():
                counts[key.namespace, health.value] += count
        return counts

    def keeping(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs that run with Keep, by namespace and health of their steps."""
        return Counter((key.namespace, job.keep.value) for key, (job, _) in self._now.items() if job.keep is not None)

    def persisting(self, wall_s: float) -> Counter[tuple[str, str]]:
        """Return the number of jobs that run with `keep.persistTo`, by namespace and health of their steps there."""
        found = ((key.namespace, persist_health(job, wall_s)) for key, (job, _) in self._now.items())
        return Counter((namespace, persist.value) for namespace, persist in found if persist is not None)

    def held_bytes(self) -> Counter[str]:
        """Return the bytes of kept steps in the memory of nodes, by namespace; only of namespaces with Keep."""
        counts: Counter[str] = Counter()
        for namespace, kept in self._keeping():
            counts[namespace] += kept.held_bytes
        return counts

    def fewest_copies(self) -> dict[str, int]:
        """Return the fewest copies that the committed step of a job has, by namespace."""
        return _least((space, kept.copies) for space, kept in self._keeping())

    def oldest_commit_s(self) -> dict[str, float]:
        """Return the time at which the job whose last commit is the oldest got it, by namespace; wall clock."""
        return _least((space, kept.committed_at_s) for space, kept in self._keeping())

    def oldest_persisted_s(self) -> dict[str, float]:
        """Return when the newest step on the disk became whole, of the job for which that is longest ago."""
        return _least((space, kept.persisted_at_s) for space, kept in self._keeping())

    def _keeping(self) -> Iterator[tuple[str, KeepSample]]:
        """Yield namespace and numbers of each job that runs with Keep."""
        return ((key.namespace, job.kept) for key, (job, _) in self._now.items() if job.keep is not None)

    def _add_elapsed(self, key: JobKey) -> None:
        if (known := self._now.get(key)) is None:
            return
        health, since_s = known
        now_s = self.clock()
        if health.bucket is not None:
            labels = key.namespace, health.bucket.value
            self._totals[labels] = self._totals.get(labels, 0.0) + now_s - since_s
        self._now[key] = health, now_s


def _least(numbers: Iterable[tuple[str, N | None]]) -> dict[str, N]:
    """Return the least number of each namespace that has any."""
    found: dict[str, N] = {}
    for namespace, number in numbers:
        if number is not None:
            found[namespace] = min(found.get(namespace, number), number)
    return found
