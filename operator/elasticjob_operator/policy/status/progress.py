"""`status.progress`: the samples with the highest step; the last known progress is kept.

Agents remove their samples when the job ends. The last ones are remembered, so that the final status is not half a
minute old.
"""

from elasticjob_api.records import NodeSamples, Progress
from elasticjob_api.status import ProgressStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.highest_progress import samples_at_highest_step

_PERCENT = 100
_NS = 1e9


def progress(snapshot: JobSnapshot) -> ProgressStatus | None:
    """Return the progress of the samples with the highest step of the last round, or that in the status."""
    samples = samples_at_highest_step(snapshot.samples.values(), snapshot.view.closed_round)
    if samples is None or samples.progress is None:
        return snapshot.status.progress
    newest = samples.progress
    return ProgressStatus(
        step=newest.step,
        total=newest.total,
        percentage=_percent_done(newest.step, newest.total),
        estimated_remaining_s=_remaining_s(samples, newest, snapshot.job_state.last_seen.first_samples),
        metrics=dict(newest.metrics),
        last_updated_time=to_rfc3339(samples.time_ns / _NS),
    )


def _percent_done(step: int | None, total: int | None) -> int | None:
    if step is None or not total:
        return None
    return min(_PERCENT, max(0, step * _PERCENT // total))


def _remaining_s(samples: NodeSamples, newest: Progress, began: NodeSamples | None) -> int | None:
    """Return the estimated seconds to the last step, from the speed since the first samples of this round."""
    first = began.progress.step if began and began.progress and began.round == samples.round else None
    if began is None or first is None or newest.step is None or newest.total is None:
        return None
    steps, took_s = newest.step - first, (samples.time_ns - began.time_ns) / _NS
    left = max(0, newest.total - newest.step)
    return round(left * took_s / steps) if steps > 0 and took_s > 0 else None
