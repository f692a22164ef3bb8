"""PURE: how long the steps of a round took one agent, out of its trace points.

One clock, the agent's own, so nothing here compares machines. A step that this agent did not take part in is None:
a joiner has stopped no workers, and only who opened a round knows how long it took to find out that one is needed.
"""

from collections.abc import Mapping

from elasticjob_agent.tracing import Mark
from elasticjob_api.records import Recovery

_NS = 10**9
_ACTED_WITHIN_S = 5.0


def recovery(marks: Mapping[str, Mark], round_: int, started_ns: int) -> Recovery:
    """The steps of `round_`, whose last worker here was started at `started_ns`."""
    return Recovery(
        detect_s=_detect_s(marks, round_),
        stop_s=_between_s(marks, "saw forming", "ready", round_),
        agree_s=_between_s(marks, "ready", "saw active", round_),
        start_s=_passed_s(_at_ns(marks, "saw active", round_), started_ns),
    )


def _detect_s(marks: Mapping[str, Mark], round_: int) -> float | None:
    """From the end of a worker here, or of a peer's link, to the round that was opened here because of it."""
    if (opened_ns := _at_ns(marks, "proposed", round_)) is not None:
        return _passed_s(_failed_ns(marks, round_ - 1), opened_ns)
    if (opened_ns := _at_ns(marks, "opened for a loss", round_)) is None:
        return None
    ended, proved, closer = (_at_ns(marks, name, 0) for name in ("link ended", "link proved", "closer proved gone"))
    if _is_soon(proved, opened_ns) and _passed_s(ended, proved) is not None:
        return _passed_s(ended, opened_ns)
    return _passed_s(closer, opened_ns) if _is_soon(closer, opened_ns) else None


def _is_soon(proved_ns: int | None, opened_ns: int) -> bool:
    """A proof is acted upon at once; an older one is of another loss, and this one was found by a lease's end."""
    passed_s = _passed_s(proved_ns, opened_ns)
    return passed_s is not None and passed_s <= _ACTED_WITHIN_S


def _failed_ns(marks: Mapping[str, Mark], round_: int) -> int | None:
    """When the worker failed; many frameworks stamp their error file in whole seconds, which measures nothing."""
    told_ns = _at_ns(marks, "failed", round_)
    return told_ns if told_ns and told_ns % _NS else _at_ns(marks, "detected", round_)


def _between_s(marks: Mapping[str, Mark], begin: str, end: str, round_: int) -> float | None:
    return _passed_s(_at_ns(marks, begin, round_), _at_ns(marks, end, round_))


def _at_ns(marks: Mapping[str, Mark], name: str, round_: int) -> int | None:
    mark = marks.get(name)
    return mark.at_ns if mark is not None and mark.round == round_ else None


def _passed_s(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Seconds, to a tenth of a millisecond; None when one is missing, or the clock was set back in between."""
    if begin_ns is None or end_ns is None or end_ns < begin_ns:
        return None
    return round((end_ns - begin_ns) / _NS, 4)
