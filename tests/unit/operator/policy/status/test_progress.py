"""`status.progress`: the highest step that a worker of this round reported."""

from typing import Any

import pytest

from elasticjob_api.records import Progress
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.status import JobStatus, ProgressStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.last_seen import record_view
from elasticjob_operator.policy.status.progress import progress
from testing.builders import NOW, NOW_S, active, job, member, membership, running, samples, seen, state, view

KNOWN = ProgressStatus(step=3)


def progress_of(*reports: tuple[Progress | None, int], before: ProgressStatus | None = None) -> ProgressStatus | None:
    """Return the progress of a job in round 2 with these pairs of progress and round."""
    of_nodes = {member(slot): samples(made, round_=round_) for slot, (made, round_) in enumerate(reports)}
    at = view(0, 1, state=active(0, 1, round=2), samples=of_nodes)
    return progress(seen(job(status=JobStatus(progress=before)), at))


def test_the_progress_that_a_worker_reported_has_its_time() -> None:
    made = progress_of((Progress(5, 20, {"loss": "0.3"}), 2))
    assert made == ProgressStatus(step=5, total=20, percentage=25, metrics={"loss": "0.3"}, last_updated_time=NOW)


def test_the_highest_step_of_several_reports_counts() -> None:
    made = progress_of((Progress(5), 2), (Progress(9), 2), (Progress(None), 2))
    assert made is not None
    assert made.step == 9


@pytest.mark.parametrize("reports", [[], [(None, 2)], [(Progress(99), 1)]], ids=["none", "empty", "an older round"])
def test_earlier_progress_is_kept_until_this_round_reports_progress(reports: list[Any]) -> None:
    assert progress_of(*reports, before=KNOWN) == KNOWN


@pytest.mark.parametrize(
    ("step", "total", "percentage"),
    [(0, 10, 0), (1, 3, 33), (10, 10, 100), (11, 10, 100), (5, 0, None), (5, None, None), (None, 10, None)],
)
def test_a_percentage_needs_step_and_total_and_stays_within_a_hundred(
    step: int | None, total: int | None, percentage: int | None
) -> None:
    made = progress_of((Progress(step, total), 2))
    assert made is not None
    assert made.percentage == percentage


def test_the_last_report_of_an_agent_is_the_progress_of_an_ended_job() -> None:
    job_state = JobState()
    last = samples(Progress(20, 20), round_=2)
    record_view(
        job_state.last_seen,
        running(0, state=active(0, round=2), membership=membership(0, round_=2), samples={member(0): last}),
        {},
    )
    ended = view(nodes={}, state=state(RoundPhase.SUCCEEDED, round=2), membership=membership(0, round_=2))
    made = progress(seen(job(status=JobStatus(progress=KNOWN)), ended, job_state=job_state))
    assert made is not None
    assert (made.step, made.percentage) == (20, 100)


def remaining(step: int, *, first_step: int = 10, after_s: float = 20.0, first_round: int = 2) -> int | None:
    """Return the estimate for a job of 100 steps whose first report is `after_s` old."""
    job_state = JobState()
    job_state.last_seen.first_samples = samples(Progress(first_step, 100), round_=first_round)
    now = samples(Progress(step, 100), round_=2, at_s=NOW_S + after_s)
    made = progress(seen(job(), view(0, state=active(0, round=2), samples={member(0): now}), job_state=job_state))
    assert made is not None
    return made.estimated_remaining_s


def test_the_remaining_time_is_estimated_from_the_speed_of_this_round() -> None:
    assert remaining(step=50) == 25, "40 steps took 20 s, 50 are left"
    assert remaining(step=100) == 0


@pytest.mark.parametrize(
    "first_report",
    [{"first_step": 50}, {"after_s": 0.0}, {"first_round": 1}],
    ids=["no step", "no time", "another round"],
)
def test_nothing_is_estimated_before_a_step_of_this_round(first_report: dict[str, Any]) -> None:
    assert remaining(step=50, **first_report) is None
