"""PURE: which failures still count against maxRestarts.

Without a window all of the job's life counts, and the world's `restarts` is the number. With one the world carries
how old each failure that counts was at the last charge (`World.charges`). Only a verdict writes that, once a round, so
no value is written twice. The next closer to judge adds the time since it first saw the value, by its own monotonic
clock. No clock is compared with another host's. A closer that saw the value late adds too little: a failure may count
too long, never too short. A wiped etcd forgets the ages, and counts from nothing.
"""

from dataclasses import dataclass

from elasticjob_api.records import Slots

_MOST_AGES = 1000
"""A world is read by every agent: a budget beyond this is not limited by a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Failures that earlier verdicts have left in the world, and the time since the last charge was seen."""

    round: int = 0
    """The round that forms: it marks the charges."""
    restarts: int = 0
    strikes: int = 0
    port_retries: int = 0
    charges: str = ""
    charges_seen_s: float = 0.0
    """How long ago, at least, `charges` was written."""


def spent(spec: Slots, tally: Tally) -> int:
    """Return the number of failures that count against max_restarts."""
    return len(_still_young(spec, tally)) if spec.restart_window_s > 0 else tally.restarts


def charged(spec: Slots, tally: Tally) -> str:
    """`World.charges` with one more failure, of age 0; empty without a window."""
    if spec.restart_window_s <= 0:
        return ""
    ages = (0.0, *_still_young(spec, tally))[:_MOST_AGES]
    return f"{tally.round}:" + ",".join(f"{age:.1f}" for age in ages)


def ages(charges: str) -> tuple[float, ...]:
    """The ages in `World.charges`, youngest first; none in what cannot be read."""
    try:
        return tuple(float(age) for age in charges.partition(":")[2].split(",") if age)
    except ValueError:
        return ()


def _still_young(spec: Slots, tally: Tally) -> tuple[float, ...]:
    now = (age + tally.charges_seen_s for age in ages(tally.charges))
    return tuple(age for age in now if age < spec.restart_window_s)


class ChargeClock:
    """Since when one process has seen the present charges; fed with every world that it sees."""

    def __init__(self) -> None:
        self._charges = ""
        self._since_s = 0.0

    def note(self, charges: str, now_s: float) -> float:
        """Take in the charges of a world seen at `now_s` (monotonic); how long they have been seen."""
        if charges != self._charges:
            self._charges, self._since_s = charges, now_s
        return now_s - self._since_s
