"""The steps that some nodes keep in memory, from the reports of their agents.

Each node knows the newest committed step of the job, perhaps one step late, and what it holds itself.
"""

from collections.abc import Iterable, Sequence

from elasticjob_api.one_line import one_line
from elasticjob_api.records import KeepReport
from elasticjob_api.status import KeepStatus, NodeKeepStatus
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.model.timestamps import to_rfc3339

_TEXT_LIMIT, _NODE_TEXT_LIMIT = 400, 128
"""Characters of a reason of the job, and of a node: the list of nodes has a limit."""
_GAP = " … "
_INT64 = (1 << 63) - 1
_NS = 1e9
_MAX_COPY_S = 86_400.0
"""Longest plausible copy; jobs report it, and it adds to the sums of all jobs."""


def keep_total(reports: Sequence[KeepReport]) -> KeepStatus:
    """Return the newest committed step that one of at least one node knows, and the sums of what all hold."""
    newest = max(reports, key=_age)
    knowing = [report for report in reports if _age(report) == _age(newest)]
    copies = [report.copies for report in knowing if report.copies is not None]
    persisted = max(reports, key=_persisted_age)
    return KeepStatus(
        step=newest.step,
        round=newest.round if newest.step is not None else None,
        copies=min(copies) if copies and newest.step is not None else None,
        committed_time=_committed_time(knowing) if newest.step is not None else "",
        copy_milliseconds=_copy_milliseconds(knowing) if newest.step is not None else None,
        bytes=_sum(report.held_bytes for report in reports),
        skipped=_sum(report.skipped for report in reports),
        persisted_step=persisted.persisted_step,
        persisted_time=_time(persisted.persisted_ns) if persisted.persisted_step is not None else "",
        persist_error=next((_cut(report.persist_error) for report in reports if report.persist_error), ""),
        degraded=next((_cut(report.degraded) for report in reports if report.degraded), ""),
    )


def node_total(report: KeepReport) -> NodeKeepStatus:
    """Return what one node knows and holds; its remark is about the memory first, then about the disk."""
    total = keep_total([report])
    return NodeKeepStatus(
        step=total.step,
        round=total.round,
        copies=total.copies,
        bytes=total.bytes,
        skipped=total.skipped,
        degraded=_cut(total.degraded or total.persist_error, _NODE_TEXT_LIMIT),
    )


def first_reason(reasons: Sequence[tuple[str, str]]) -> str:
    """Return the name of the first node with a reason, the reason and the number of others; empty without any.

    `reasons` are pairs of a node's name and its reason, empty for a node that is well.
    """
    troubled = [(name, why) for name, why in reasons if why]
    if not troubled:
        return ""
    name, why = troubled[0]
    more = f" (and {pluralize(len(troubled) - 1, 'more node')})" if len(troubled) > 1 else ""
    return f"{name}: {_cut(why)}{more}"


def _age(report: KeepReport) -> tuple[int, int]:
    """Return a key by which steps of later rounds are newer, and no step is the oldest."""
    return (-1, -1) if report.step is None else (report.round, report.step)


def _persisted_age(report: KeepReport) -> tuple[int, int]:
    """Return a key by which steps that became whole later are newer: their numbers may be of different rounds."""
    return (-1, -1) if report.persisted_step is None else (report.persisted_ns, report.persisted_step)


def _committed_time(knowing: Sequence[KeepReport]) -> str:
    """Return when the first of these nodes got to know that their step is committed; empty if none reports it."""
    return _time(min((report.committed_ns for report in knowing if report.committed_ns), default=0))


def _copy_milliseconds(knowing: Sequence[KeepReport]) -> int | None:
    took_s = [report.copy_s for report in knowing if report.copy_s is not None and 0 <= report.copy_s <= _MAX_COPY_S]
    return round(max(took_s) * 1000) if took_s else None


def _time(at_ns: int) -> str:
    return to_rfc3339(at_ns / _NS) if at_ns else ""


def _sum(counts: Iterable[int]) -> int:
    return min(sum(counts), _INT64)


def _cut(text: str, most: int = _TEXT_LIMIT) -> str:
    """Return a reason as one line of a limited length. Its end stays, because that has the cure."""
    line = one_line(text)
    if len(line) <= most:
        return line
    end = (most - len(_GAP)) // 2
    return line[: most - len(_GAP) - end] + _GAP + line[-end:]
