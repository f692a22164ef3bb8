"""PURE: `status.progress`: the newest that any worker told, by step; what was once told is kept.

Agents take their reports with them when the job ends; the last ones are remembered, so that the end is not told
as it was half a minute before.
"""

from elasticjob_api.status import ProgressStatus
from elasticjob_operator.observed import Observed
from elasticjob_operator.timestamps import to_rfc3339

_PERCENT = 100
_NS = 1e9


def progress(seen: Observed) -> ProgressStatus | None:
    """The furthest progress among the nodes' reports of the last round, or what was known before."""
    told = [r for r in seen.reports.values() if r.progress is not None and r.round == seen.view.closed_round]
    if not told:
        return seen.status.progress
    report = max(told, key=lambda r: -1 if r.progress is None or r.progress.step is None else r.progress.step)
    newest = report.progress
    if newest is None:
        return seen.status.progress
    return ProgressStatus(
        step=newest.step,
        total=newest.total,
        percentage=_percentage(newest.step, newest.total),
        metrics=dict(newest.metrics),
        last_updated_time=to_rfc3339(report.time_ns / _NS),
    )


def _percentage(step: int | None, total: int | None) -> int | None:
    if step is None or not total:
        return None
    return min(_PERCENT, max(0, step * _PERCENT // total))
