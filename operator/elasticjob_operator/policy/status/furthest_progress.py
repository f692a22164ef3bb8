"""The report of a round with the most progress."""

from collections.abc import Iterable

from elasticjob_api.records import NodeReport


def furthest(reports: Iterable[NodeReport], round_: int) -> NodeReport | None:
    """Return the report of this round with the highest step; None if no agent has reported progress."""
    with_progress = [report for report in reports if report.progress is not None and report.round == round_]
    return max(with_progress, key=_step, default=None)


def _step(report: NodeReport) -> int:
    step = report.progress.step if report.progress else None
    return -1 if step is None else step
