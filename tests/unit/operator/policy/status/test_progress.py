"""`status.progress`: the furthest that any worker of this round told."""

from typing import Any

import pytest

from elasticjob_api.records import Progress
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.status import JobStatus, ProgressStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.progress import progress
from testing.builders import NOW, NOW_S, active, job, member, membership, report, running, seen, view, world

KNOWN = ProgressStatus(step=3)


def told(*reports: tuple[Progress | None, int], before: ProgressStatus | None = None) -> ProgressStatus | None:
    """Of these pairs of progress and round; the job is in round 2."""
    of_nodes = {
        member(slot): report(slot, progress=made, round=round_, time_ns=int(NOW_S * 1e9))
        for slot, (made, round_) in enumerate(reports)
    }
    at = view(0, 1, world=active(0, 1, round=2), reports=of_nodes)
    return progress(seen(job(status=JobStatus(progress=before)), at))


def test_what_a_worker_told_is_shown_with_its_time() -> None:
    made = told((Progress(5, 20, {"loss": "0.3"}), 2))
    assert made == ProgressStatus(step=5, total=20, percentage=25, metrics={"loss": "0.3"}, last_updated_time=NOW)


def test_of_several_the_furthest_counts() -> None:
    made = told((Progress(5), 2), (Progress(9), 2), (Progress(None), 2))
    assert made is not None
    assert made.step == 9


@pytest.mark.parametrize("reports", [[], [(None, 2)], [(Progress(99), 1)]], ids=["none", "empty", "an older round"])
def test_what_was_told_before_is_kept_until_this_round_tells_more(reports: list[Any]) -> None:
    assert told(*reports, before=KNOWN) == KNOWN


@pytest.mark.parametrize(
    ("step", "total", "percentage"),
    [(0, 10, 0), (1, 3, 33), (10, 10, 100), (11, 10, 100), (5, 0, None), (5, None, None), (None, 10, None)],
)
def test_a_percentage_needs_step_and_total_and_stays_within_a_hundred(
    step: int | None, total: int | None, percentage: int | None
) -> None:
    made = told((Progress(step, total), 2))
    assert made is not None
    assert made.percentage == percentage


def test_what_an_agent_told_last_is_the_progress_of_a_job_that_has_ended() -> None:
    job_state = JobState()
    last = report(0, progress=Progress(20, 20), round=2, time_ns=int(NOW_S * 1e9))
    job_state.last_seen.record(
        running(0, world=active(0, round=2), membership=membership(0, round_=2), reports={member(0): last}), {}
    )
    ended = view(nodes={}, world=world(RoundPhase.SUCCEEDED, round=2), membership=membership(0, round_=2))
    made = progress(seen(job(status=JobStatus(progress=KNOWN)), ended, job_state=job_state))
    assert made is not None
    assert (made.step, made.percentage) == (20, 100)


def remaining(step: int, *, first_step: int = 10, after_s: float = 20.0, first_round: int = 2) -> int | None:
    """Of 100 steps, when the first report that was seen is of `after_s` ago."""
    job_state = JobState()
    job_state.last_seen.first_reports = report(
        0, progress=Progress(first_step, 100), round=first_round, time_ns=int(NOW_S * 1e9)
    )
    now = report(0, progress=Progress(step, 100), round=2, time_ns=int((NOW_S + after_s) * 1e9))
    made = progress(seen(job(), view(0, world=active(0, round=2), reports={member(0): now}), job_state=job_state))
    assert made is not None
    return made.estimated_remaining_s


def test_what_remains_is_estimated_by_the_speed_of_this_round() -> None:
    assert remaining(step=50) == 25, "40 steps took 20 s, 50 are left"
    assert remaining(step=100) == 0


@pytest.mark.parametrize(
    "seen_first",
    [{"first_step": 50}, {"after_s": 0.0}, {"first_round": 1}],
    ids=["no step", "no time", "another round"],
)
def test_nothing_is_estimated_before_a_step_of_this_round_was_seen(seen_first: dict[str, Any]) -> None:
    assert remaining(step=50, **seen_first) is None
