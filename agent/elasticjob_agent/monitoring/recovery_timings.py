"""PURE: how long the steps of a round took one agent, out of its trace points.

One clock, the agent's own, so nothing here compares machines. A step that this agent did not take part in is None:
a joiner has stopped no workers, and only who opened a round knows how long it took to find out that one is needed.
"""

from collections.abc import Mapping

from elasticjob_agent.tracing import TracedPoint
from elasticjob_api.records import RecoveryTimings

_NS = 10**9
_REACTION_S = 5.0


def recovery_timings(points: Mapping[str, TracedPoint], round_: int, started_ns: int) -> RecoveryTimings:
    """The steps of `round_`, whose last worker here was started at `started_ns`."""
    return RecoveryTimings(
        detect_s=_detect_s(points, round_),
        stop_s=_between_s(points, "saw forming", "ready", round_),
        agree_s=_between_s(points, "ready", "saw active", round_),
        start_s=_elapsed_s(_at_ns(points, "saw active", round_), started_ns),
    )


def _detect_s(points: Mapping[str, TracedPoint], round_: int) -> float | None:
    """From the end of a worker here, or of a peer's link, to the round that was opened here because of it."""
    if (opened_ns := _at_ns(points, "proposed", round_)) is not None:
        return _elapsed_s(_failed_ns(points, round_ - 1), opened_ns)
    if (opened_ns := _at_ns(points, "opened for a loss", round_)) is None:
        return None
    ended, proved, closer = (_at_ns(points, name, 0) for name in ("link ended", "link proved", "closer proved gone"))
    if _is_within(proved, opened_ns) and _elapsed_s(ended, proved) is not None:
        return _elapsed_s(ended, opened_ns)
    return _elapsed_s(closer, opened_ns) if _is_within(closer, opened_ns) else None


def _is_within(proved_ns: int | None, opened_ns: int) -> bool:
    """A proof is acted upon at once; an older one is of another loss, and this one was found by a lease's end."""
    passed_s = _elapsed_s(proved_ns, opened_ns)
    return passed_s is not None and passed_s <= _REACTION_S


def _failed_ns(points: Mapping[str, TracedPoint], round_: int) -> int | None:
    """When the worker failed; many frameworks stamp their error file in whole seconds, which measures nothing."""
    told_ns = _at_ns(points, "failed", round_)
    return told_ns if told_ns and told_ns % _NS else _at_ns(points, "detected", round_)


def _between_s(points: Mapping[str, TracedPoint], begin: str, end: str, round_: int) -> float | None:
    return _elapsed_s(_at_ns(points, begin, round_), _at_ns(points, end, round_))


def _at_ns(points: Mapping[str, TracedPoint], name: str, round_: int) -> int | None:
    mark = points.get(name)
    return mark.at_ns if mark is not None and mark.round == round_ else None


def _elapsed_s(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Seconds, to a tenth of a millisecond; None when one is missing, or the clock was set back in between."""
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return round((end_ns - begin_ns) / _NS, 4)
