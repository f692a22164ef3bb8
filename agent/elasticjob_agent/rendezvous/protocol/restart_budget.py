"""PURE: which failures still count against maxRestarts.

Without a window all of the job's life counts, and the world's `restarts` is the number. With one the world carries
how old each failure that counts was at the last charge (`World.charges`). Only a verdict writes that, once a round, so
no value is written twice. The next closer to judge adds the time since it first saw the value, by its own monotonic
clock. No clock is compared with another host's. A closer that saw the value late adds too little: a failure may count
too long, never too short. A wiped etcd forgets the ages, and counts from nothing.
"""

from dataclasses import dataclass

from elasticjob_api.records import SpecRecord

_MAX_AGES = 1000
"""A world is read by every agent: a budget beyond this is not limited by a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCounts:
    """Failures that earlier verdicts have left in the world, and the time since the last charge was seen."""

    round: int = 0
    """The round that forms: it marks the charges."""
    restarts: int = 0
    startup_failures: int = 0
    port_retries: int = 0
    charged_failures: str = ""
    charged_ages_s: float = 0.0
    """How long ago, at least, `charges` was written."""


def used_restarts(spec: SpecRecord, counts: RestartCounts) -> int:
    """Return the number of failures that count against max_restarts."""
    return len(_within_window(spec, counts)) if spec.restart_window_s > 0 else counts.restarts


def is_charged(spec: SpecRecord, counts: RestartCounts) -> str:
    """`World.charges` with one more failure, of age 0; empty without a window."""
    if spec.restart_window_s <= 0:
        return ""
    ages = (0.0, *_within_window(spec, counts))[:_MAX_AGES]
    return f"{counts.round}:" + ",".join(f"{age:.1f}" for age in ages)


def failure_ages(charges: str) -> tuple[float, ...]:
    """The ages in `World.charges`, youngest first; none in what cannot be read."""
    try:
        return tuple(float(age) for age in charges.partition(":")[2].split(",") if age)
    except ValueError:
        return ()


def _within_window(spec: SpecRecord, counts: RestartCounts) -> tuple[float, ...]:
    now = (age + counts.charged_ages_s for age in failure_ages(counts.charged_failures))
    return tuple(age for age in now if age < spec.restart_window_s)


class FailureAgeClock:
    """Since when one process has seen the present charges; fed with every world that it sees."""

    def __init__(self) -> None:
        self._charged_failures = ""
        self._since_s = 0.0

    def record(self, charges: str, now_s: float) -> float:
        """Take in the charges of a world seen at `now_s` (monotonic); how long they have been seen."""
        if charges != self._charged_failures:
            self._charged_failures, self._since_s = charges, now_s
        return now_s - self._since_s
