"""How the workers of each round of a job were started, from the reports of its agents; for metrics only.

Only jobs whose warm start is on have such reports. Each node of a round is counted once. A round that the status had
before this process first reconciled the job is left out: the previous process has counted it.
"""

from dataclasses import dataclass, field

from elasticjob_api.records import StartReport
from elasticjob_api.rendezvous_state import Cause, Member
from elasticjob_api.rendezvous_view import RendezvousView

MAX_FIRST_OUTPUT_S = 7 * 86_400.0
"""Longest plausible time to the first output."""


def is_warm(start: StartReport, workers: int) -> bool:
    """Whether all of this number of workers were started warm."""
    return start.warm >= workers


def plausible_first_output_s(start: StartReport) -> float | None:
    """Return the time to the first output; None if there is none, or if no agent would report it."""
    first_s = start.first_output_s
    return first_s if first_s is not None and 0.0 <= first_s <= MAX_FIRST_OUTPUT_S else None


@dataclass(frozen=True, slots=True)
class StartSample:
    """The start of one node's workers; a fact that was returned before is left out."""

    cause: Cause
    """Of the round."""
    is_warm: bool
    warm: int = 0
    cold: int = 0
    first_output_s: float | None = None


@dataclass(slots=True)
class StartTracker:
    """The starts of one job."""

    _ignored: int | None = None
    """The round of the status at the first call."""
    _round: int = 0
    _counted: set[Member] = field(default_factory=set)
    _timed: set[Member] = field(default_factory=set)

    def record(self, view: RendezvousView, *, in_status: int) -> list[StartSample]:
        """Return the facts that reports show for the first time.

        `in_status` is the last round in the status. It is used at the first call only.
        """
        state = view.active_state
        if self._ignored is None:
            self._ignored = in_status
        if state is None or state.round == self._ignored:
            return []
        if state.round != self._round:
            self._round, self._counted, self._timed = state.round, set(), set()
        started = [
            (member, report.start, len(report.workers))
            for member, report in view.reports.items()
            if report.start is not None and report.round == state.round and member not in self._timed
        ]
        samples = [self._sample(state.cause, member, start, workers) for member, start, workers in started]
        return [sample for sample in samples if sample is not None]

    def _sample(self, cause: Cause, member: Member, start: StartReport, workers: int) -> StartSample | None:
        first_s, is_counted = plausible_first_output_s(start), member in self._counted
        if is_counted and first_s is None:
            return None
        self._counted.add(member)
        if first_s is not None:
            self._timed.add(member)
        warm = min(max(0, start.warm), workers)
        counts = (0, 0) if is_counted else (warm, workers - warm)
        return StartSample(cause, is_warm(start, workers), *counts, first_s)
