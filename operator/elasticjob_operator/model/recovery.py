"""The time that each round of a job took to start, from the reports of its agents; for metrics only.

A round is measured once, when all its members have reported that their workers have started. A round that the status
had before this process first reconciled the job is left out: the previous process has measured it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elasticjob_api.records import RecoveryTimings
from elasticjob_api.rendezvous_state import Cause, RendezvousState
from elasticjob_api.rendezvous_view import RendezvousView

NO_FAULT = frozenset({Cause.FIRST, Cause.RESUMED})
"""No round ran before, so this is no recovery."""
RESIZE = frozenset({Cause.NODE_JOINED, Cause.SCALED_DOWN})
"""No fault: the job got another size."""
MAX_RECOVERY_S = 7 * 86_400.0
"""Longest plausible step: a job may wait for a node over a weekend."""


@dataclass(frozen=True, slots=True)
class RecoverySample:
    """A round whose workers have all started."""

    round: int
    cause: Cause
    steps: Mapping[str, float]
    """Seconds of `detect`, `stop`, `agree`, `restore`, `start`; a step that no agent has measured is left out."""

    @property
    def total_s(self) -> float:
        """Seconds of all steps, which follow each other."""
        return sum(self.steps.values())


@dataclass(slots=True)
class RecoveryTracker:
    """The measurement of one job's rounds."""

    _round: int | None = None
    """The last active round that was observed; None before the first."""
    _forming: bool = False
    """Whether that round has not been measured yet."""

    def record(self, view: RendezvousView, *, in_status: int) -> tuple[RendezvousState | None, RecoverySample | None]:
        """Return the round that has just become active, and the sample of the round that was just measured.

        `in_status` is the last round in the status. It is used at the first call only.
        """
        state = view.active_state
        if self._round is None:
            self._round = in_status
        if state is None:
            return None, None
        news = state if state.round != self._round else None
        if state.round != self._round:
            self._round, self._forming = state.round, news is not None
        return news, self._sample(view, state) if self._forming else None

    def _sample(self, view: RendezvousView, state: RendezvousState) -> RecoverySample | None:
        reports = [view.reports.get(member) for member in state.members]
        reported = [report.recovery for report in reports if report is not None and report.round == state.round]
        complete = [recovery for recovery in reported if recovery is not None]
        if len(complete) < len(state.members):
            return None
        self._forming = False
        return RecoverySample(state.round, state.cause, step_durations(complete))


def step_durations(timings: Iterable[RecoveryTimings]) -> dict[str, float]:
    """Return the duration of each step of a round: that of the slowest member.

    `agree` begins when the last member is ready, so the shortest time counts there.
    """
    timings = tuple(timings)
    known = {
        "detect": _plausible(r.detect_s for r in timings),
        "stop": _plausible(r.stop_s for r in timings),
        "agree": _plausible(r.agree_s for r in timings),
        "restore": _plausible(r.restore_s for r in timings),
        "start": _plausible(r.start_s for r in timings),
    }
    return {name: (min if name == "agree" else max)(values) for name, values in known.items() if values}


def _plausible(timings: Iterable[float | None]) -> list[float]:
    """Return the values that are plausible durations; jobs report them, and they add to the sums of all jobs."""
    return [value for value in timings if value is not None and 0.0 <= value <= MAX_RECOVERY_S]
