"""ttlSecondsAfterFinished."""

from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.ttl import expires_at_s
from testing.builders import NOW_S, ago, job

ENDED = JobStatus(completion_time=ago(10))


def test_a_finished_job_expires_its_ttl_after_its_completion() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=60), ENDED) == NOW_S + 50.0


def test_a_ttl_of_zero_expires_at_once() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=0), ENDED) == NOW_S - 10.0


def test_a_job_without_a_ttl_never_expires() -> None:
    assert expires_at_s(job(), ENDED) is None


def test_a_job_that_has_not_finished_does_not_expire() -> None:
    assert expires_at_s(job(ttl_seconds_after_finished=0), JobStatus(start_time=ago(10))) is None
