"""How fast one job's rounds come about, from what its agents report: for the metrics, never for a decision.

A round is measured once, when all its members have reported that their workers were started. One that the status had
already when this process first looked is not: its predecessor has measured it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elasticjob_api.records import RecoveryTimings
from elasticjob_api.rendezvous_state import Cause, RendezvousState
from elasticjob_operator.model.rendezvous_view import RendezvousView

NO_FAULT = frozenset({Cause.FIRST, Cause.RESUMED})
"""Nothing had run before: nobody recovers from anything."""
RESIZE = frozenset({Cause.NODE_JOINED, Cause.SCALED_DOWN})
"""Nothing was wrong: the job got another size."""
MAX_RECOVERY_S = 7 * 86_400.0
"""Of a step: a node may be waited for over a weekend."""


@dataclass(frozen=True, slots=True)
class RecoverySample:
    """A round all of whose workers were started."""

    round: int
    cause: Cause
    steps: Mapping[str, float]
    """Seconds of `detect`, `stop`, `agree`, `start`; what no agent has measured is not in it."""

    @property
    def total_s(self) -> float:
        """The steps follow each other."""
        return sum(self.steps.values())


@dataclass(slots=True)
class RecoveryTracker:
    """Of one job."""

    _round: int | None = None
    """The active round seen last; None before the first look."""
    _forming: bool = False
    """It has not been measured yet."""

    def record(self, view: RendezvousView, *, in_status: int) -> tuple[RendezvousState | None, RecoverySample | None]:
        """Return the round that has just become active, and the one that was just measured.

        `in_status` is the last round that the status has. It counts at the first look only.
        """
        world = view.is_active
        if self._round is None:
            self._round = in_status
        if world is None:
            return None, None
        news = world if world.round != self._round else None
        if world.round != self._round:
            self._round, self._forming = world.round, news is not None
        return news, self._sample(view, world) if self._forming else None

    def _sample(self, view: RendezvousView, world: RendezvousState) -> RecoverySample | None:
        reports = [view.reports.get(member) for member in world.members]
        told = [report.recovery for report in reports if report is not None and report.round == world.round]
        whole = [recovery for recovery in told if recovery is not None]
        if len(whole) < len(world.members):
            return None
        self._forming = False
        return RecoverySample(world.round, world.cause, step_durations(whole))


def step_durations(timings: Iterable[RecoveryTimings]) -> dict[str, float]:
    """The steps of a round out of its members': each lasts as long as for the slowest.

    Agreeing begins when the last one is ready, and that is the one that waits least for it.
    """
    timings = tuple(timings)
    known = {
        "detect": _is_plausible(r.detect_s for r in timings),
        "stop": _is_plausible(r.stop_s for r in timings),
        "agree": _is_plausible(r.agree_s for r in timings),
        "start": _is_plausible(r.start_s for r in timings),
    }
    return {name: (min if name == "agree" else max)(values) for name, values in known.items() if values}


def _is_plausible(timings: Iterable[float | None]) -> list[float]:
    """A job's own word goes into the sums of all jobs: one that is no number, or no length of time, is left out."""
    return [value for value in timings if value is not None and 0.0 <= value <= MAX_RECOVERY_S]
