"""`status.progress`: the report with the highest step; the last known progress is kept.

Agents remove their reports when the job ends. The last ones are remembered, so that the final status is not half a
minute old.
"""

from elasticjob_api.records import NodeReport, Progress
from elasticjob_api.status import ProgressStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.furthest_progress import furthest

_PERCENT = 100
_NS = 1e9


def progress(snapshot: JobSnapshot) -> ProgressStatus | None:
    """Return the furthest progress among the reports of the last round, or that in the status."""
    report = furthest(snapshot.reports.values(), snapshot.view.closed_round)
    if report is None or report.progress is None:
        return snapshot.status.progress
    newest = report.progress
    return ProgressStatus(
        step=newest.step,
        total=newest.total,
        percentage=_percent_done(newest.step, newest.total),
        estimated_remaining_s=_remaining_s(report, newest, snapshot.job_state.last_seen.first_report),
        metrics=dict(newest.metrics),
        last_updated_time=to_rfc3339(report.time_ns / _NS),
    )


def _percent_done(step: int | None, total: int | None) -> int | None:
    if step is None or not total:
        return None
    return min(_PERCENT, max(0, step * _PERCENT // total))


def _remaining_s(report: NodeReport, newest: Progress, began: NodeReport | None) -> int | None:
    """Return the estimated seconds to the last step, from the speed since the first report of this round."""
    first = began.progress.step if began and began.progress and began.round == report.round else None
    if began is None or first is None or newest.step is None or newest.total is None:
        return None
    steps, took_s = newest.step - first, (report.time_ns - began.time_ns) / _NS
    left = max(0, newest.total - newest.step)
    return round(left * took_s / steps) if steps > 0 and took_s > 0 else None
