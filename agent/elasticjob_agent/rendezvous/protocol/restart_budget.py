"""The failures that still count against maxRestarts.

Without a restart window all failures of the job count, and the state's `restarts` is the number. With a window the
state has the age of each counted failure at the last charge (`charged_failures`). Only a verdict writes that field,
once a round, so no value is written twice. The leader that decides the next verdict adds the time since it first saw
the value, by its own monotonic clock. No clock is compared with another host's. If the leader saw the value late, it
adds too little: a failure may count too long, never too short. After a wipe of etcd the ages are lost, and counting
starts again.
"""

from dataclasses import dataclass

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import charged_ages_s, encode_charged_failures

_MAX_AGES = 1000
"""Each agent reads the state, so its size is limited: a larger budget is not limited by a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCounts:
    """The counters from earlier verdicts in the state, and the time since the last charge was seen."""

    round: int = 0
    """The round that forms; it is part of `charged_failures`."""
    restarts: int = 0
    startup_failures: int = 0
    port_retries: int = 0
    charged_failures: str = ""
    charged_ages_s: float = 0.0
    """The least time since `charged_failures` was written, in seconds."""


def used_restarts(spec: SpecRecord, counts: RestartCounts) -> int:
    """Return the number of failures that count against max_restarts."""
    return len(_within_window(spec, counts)) if spec.restart_window_s > 0 else counts.restarts


def with_charged_failure(spec: SpecRecord, counts: RestartCounts) -> str:
    """Return `charged_failures` with one more failure, of age 0; empty without a window."""
    if spec.restart_window_s <= 0:
        return ""
    ages = (0.0, *_within_window(spec, counts))  # youngest first
    return encode_charged_failures(counts.round, ages[:_MAX_AGES])


def _within_window(spec: SpecRecord, counts: RestartCounts) -> tuple[float, ...]:
    now = (age + counts.charged_ages_s for age in charged_ages_s(counts.charged_failures))
    return tuple(age for age in now if age < spec.restart_window_s)


class FailureAgeClock:
    """Measures how long one process has seen the current `charged_failures`; it gets each state that is received."""

    def __init__(self) -> None:
        self._charged_failures = ""
        self._since_s = 0.0

    def record(self, charges: str, now_s: float) -> float:
        """Take in the charges of a state received at `now_s` (monotonic); return how long they have been seen."""
        if charges != self._charged_failures:
            self._charged_failures, self._since_s = charges, now_s
        return now_s - self._since_s
