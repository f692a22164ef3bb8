"""Intervals of progress writes: a period for each job, and a fixed budget for all of them together."""

import pytest

from testing.builders import SETTINGS


@pytest.mark.parametrize(("jobs", "period_s"), [(0, 30.0), (1, 30.0), (120, 30.0), (240, 60.0), (1000, 250.0)])
def test_with_many_jobs_each_writes_its_progress_less_often(jobs: int, period_s: float) -> None:
    assert SETTINGS.progress_interval_s(jobs) == period_s
