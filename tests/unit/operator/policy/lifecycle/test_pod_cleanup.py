"""cleanPodPolicy: which pods of an ended job are deleted, and when."""

import pytest

from elasticjob_api.spec import CleanPodPolicy, GracefulShutdown
from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.pod_cleanup import CLEANUP_MARGIN_S, cleanup_at_s, pods_to_delete
from testing.builders import NOW_S, ago, job, pod

PODS = [pod(0), pod(1, phase="Succeeded"), pod(2, phase="Failed"), pod(3, phase="Pending"), pod(4, terminating=True)]


def deleted_slots(policy: CleanPodPolicy, status: JobStatus) -> list[int | None]:
    return [each.slot for each in pods_to_delete(job(clean_pod_policy=policy), status, PODS, NOW_S)]


@pytest.mark.parametrize(
    ("policy", "slots"),
    [(CleanPodPolicy.RUNNING, [0, 3]), (CleanPodPolicy.ALL, [0, 1, 2, 3]), (CleanPodPolicy.NONE, [])],
)
def test_the_policy_determines_the_pods_to_delete_after_the_end(policy: CleanPodPolicy, slots: list[int]) -> None:
    assert deleted_slots(policy, JobStatus(completion_time=ago(3600))) == slots


def test_a_sidecar_does_not_keep_the_pod_of_an_ended_job() -> None:
    lingering = pod(0, phase="Succeeded", has_running_sidecar=True)
    assert pods_to_delete(job(), JobStatus(completion_time=ago(3600)), [lingering], NOW_S) == [lingering]


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_no_pod_of_a_running_job_is_deleted(policy: CleanPodPolicy) -> None:
    assert deleted_slots(policy, JobStatus(start_time=ago(3600))) == []


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_agents_have_the_time_of_a_graceful_stop_to_exit_by_themselves(policy: CleanPodPolicy) -> None:
    assert deleted_slots(policy, JobStatus(completion_time=ago(30))) == []


def test_the_time_is_the_graceful_shutdown_and_a_margin() -> None:
    of = job(graceful_shutdown=GracefulShutdown(seconds=120.0))
    assert cleanup_at_s(of, JobStatus(completion_time=ago(0))) == NOW_S + 120.0 + CLEANUP_MARGIN_S


def test_with_policy_none_there_is_no_such_time() -> None:
    assert cleanup_at_s(job(clean_pod_policy=CleanPodPolicy.NONE), JobStatus(completion_time=ago(0))) is None
