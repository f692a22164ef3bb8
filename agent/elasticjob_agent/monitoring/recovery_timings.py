"""The duration of each step of a round on one agent, from its trace points.

All times are of the agent's own clock, so no clocks of two machines are compared. A step in which this agent took no
part is None. For example, a joiner has stopped no workers, and only the agent that opened a round knows how long the
detection took.
"""

from elasticjob_agent.tracing import TracedPoints
from elasticjob_api.records import RecoveryTimings
from elasticjob_api.trace_points import TracePoint

_NS = 10**9
_REACTION_S = 5.0


def recovery_timings(points: TracedPoints, round_: int, started_ns: int) -> RecoveryTimings:
    """Return the steps of `round_`; `started_ns` is the start of the last worker of this node."""
    active_ns, restored_ns = (_at_ns(points, name, round_) for name in ("saw active", "restored"))
    return RecoveryTimings(
        detect_s=_detect_s(points, round_),
        stop_s=_between_s(points, "saw forming", "ready", round_),
        agree_s=_between_s(points, "ready", "saw active", round_),
        restore_s=_elapsed_s(active_ns, restored_ns),
        start_s=_elapsed_s(active_ns if restored_ns is None else restored_ns, started_ns),
    )


def _detect_s(points: TracedPoints, round_: int) -> float | None:
    """Return the time from the end of a worker of this node, or of a peer's link, to the round that it opened here."""
    if (opened_ns := _at_ns(points, "proposed", round_)) is not None:
        return _elapsed_s(_failed_ns(points, round_ - 1), opened_ns)
    if (opened_ns := _at_ns(points, "opened for a loss", round_)) is None:
        return None
    ended, proved, leader = (_at_ns(points, name, 0) for name in ("link ended", "link proved", "closer proved gone"))
    if _is_within(proved, opened_ns) and _elapsed_s(ended, proved) is not None:
        return _elapsed_s(ended, opened_ns)
    return _elapsed_s(leader, opened_ns) if _is_within(leader, opened_ns) else None


def _is_within(proved_ns: int | None, opened_ns: int) -> bool:
    """Whether the proof led to this round."""
    # A round follows a proof at once. An older proof is of another loss; the end of a lease revealed this one.
    passed_s = _elapsed_s(proved_ns, opened_ns)
    return passed_s is not None and passed_s <= _REACTION_S


def _failed_ns(points: TracedPoints, round_: int) -> int | None:
    """Return the time at which the worker failed; the time of detection if its error file has no exact time."""
    # Many frameworks write whole seconds into their error file, which is too coarse to measure.
    reported_ns = _at_ns(points, "failed", round_)
    return reported_ns if reported_ns and reported_ns % _NS else _at_ns(points, "detected", round_)


def _between_s(points: TracedPoints, begin: TracePoint, end: TracePoint, round_: int) -> float | None:
    return _elapsed_s(_at_ns(points, begin, round_), _at_ns(points, end, round_))


def _at_ns(points: TracedPoints, name: TracePoint, round_: int) -> int | None:
    point = points.get(name)
    return point.at_ns if point is not None and point.round == round_ else None


def _elapsed_s(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Return the seconds between, to 0.1 ms; None if a time is missing or the clock was set back in between."""
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return round((end_ns - begin_ns) / _NS, 4)
