"""ttlSecondsAfterFinished."""

from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.ttl import expires_at_s
from testing.builders import NOW_S, ago, job

ENDED = JobStatus(completion_time=ago(10))


def test_a_finished_job_expires_so_long_after_its_completion() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=60), ENDED) == NOW_S + 50.0


def test_zero_is_at_once_and_not_never() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=0), ENDED) == NOW_S - 10.0


def test_without_a_ttl_a_job_is_kept() -> None:
    assert expires_at_s(job(), ENDED) is None


def test_a_job_that_has_not_finished_does_not_expire() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=0), JobStatus(start_time=ago(10))) is None
