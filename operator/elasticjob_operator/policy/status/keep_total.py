"""The steps that some nodes keep in memory, from the reports of their agents.

Each node knows the newest committed step of the job, perhaps one step late, and what it holds itself.
"""

from collections.abc import Iterable, Sequence

from elasticjob_api.one_line import one_line
from elasticjob_api.records import KeepReport
from elasticjob_api.status import KeepStatus
from elasticjob_operator.model.text import pluralize

_TEXT_LIMIT = 128
"""Characters of a reason: the list of nodes has a limit."""
_INT64 = (1 << 63) - 1


def keep_total(reports: Sequence[KeepReport]) -> KeepStatus:
    """Return the newest committed step that one of at least one node knows, and the sums of what all hold."""
    newest = max(reports, key=_age)
    knowing = [report for report in reports if _age(report) == _age(newest)]
    copies = [report.copies for report in knowing if report.copies is not None]
    return KeepStatus(
        step=newest.step,
        round=newest.round if newest.step is not None else None,
        copies=min(copies) if copies and newest.step is not None else None,
        bytes=_sum(report.held_bytes for report in reports),
        skipped=_sum(report.skipped for report in reports),
        degraded=next((_cut(report.degraded) for report in reports if report.degraded), ""),
    )


def first_degradation(reports: Sequence[tuple[str, KeepReport]]) -> str:
    """Return the name of the first node that is degraded, its reason and the number of others; empty if all are well.

    `reports` are pairs of a node's name and its report.
    """
    degraded = [(name, report.degraded) for name, report in reports if report.degraded]
    if not degraded:
        return ""
    name, why = degraded[0]
    more = f" (and {pluralize(len(degraded) - 1, 'more node')})" if len(degraded) > 1 else ""
    return f"{name}: {_cut(why)}{more}"


def _age(report: KeepReport) -> tuple[int, int]:
    """Return a key by which steps of later rounds are newer, and no step is the oldest."""
    return (-1, -1) if report.step is None else (report.round, report.step)


def _sum(counts: Iterable[int]) -> int:
    return min(sum(counts), _INT64)


def _cut(text: str) -> str:
    return one_line(text)[:_TEXT_LIMIT]
