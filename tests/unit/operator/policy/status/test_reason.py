"""`status.reason` and `status.message` for `kubectl get`: set for a problem, empty for a healthy job."""

from typing import Any

import pytest

from elasticjob_api.records import KeepReport
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.spec import Keep
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.build import next_status
from testing.builders import active, job, member, membership, pod, record, running, samples, seen, state, view

BAD_IMAGE = pod(0, phase="Pending", reason="ImagePullBackOff", message="Back-off pulling image x")
ROUND = {"membership": membership(0, 1)}


def reason_of(
    at: RendezvousView, *pods: Any, job_state: JobState | None = None, etcd_trouble: str = "", **spec: Any
) -> tuple[str, str]:
    known = job_state or JobState()
    status: JobStatus = next_status(seen(job(**spec), at, *pods, job_state=known, etcd_trouble=etcd_trouble))
    return status.reason, status.message


@pytest.mark.parametrize(
    ("at", "pods"),
    [
        (running(0), (pod(0),)),
        (view(0, state=state(RoundPhase.SUCCEEDED), membership=membership(0)), ()),
    ],
    ids=["running", "succeeded"],
)
def test_a_healthy_job_has_no_reason(at: RendezvousView, pods: tuple[Any, ...]) -> None:
    assert reason_of(at, *pods) == ("", "")


def test_a_suspended_job_has_no_reason() -> None:
    assert reason_of(RendezvousView(), suspend=True) == ("", "")


def test_a_pending_job_has_the_reason_of_its_pod() -> None:
    expected = ("ImagePullBackOff", "pod j-0-a: ImagePullBackOff: Back-off pulling image x")
    assert reason_of(view(0, nodes={}), BAD_IMAGE) == expected


def test_the_message_of_a_failed_creation_is_that_of_the_api_server() -> None:
    refused = JobState(failed_creation_reason="exceeded quota: gpus")
    assert reason_of(view(0, nodes={}), job_state=refused) == ("PodsNotCreated", "exceeded quota: gpus")


def test_a_starting_job_has_a_message_and_no_reason() -> None:
    assert reason_of(view(0, nodes={}), pod(0, phase="Pending")) == ("", "waiting for pods")


@pytest.mark.parametrize("cause", [Cause.FIRST, Cause.RESUMED, Cause.NODE_LOST])
def test_a_job_that_waits_for_its_directory_has_the_reason(cause: Cause) -> None:
    waiting = samples(keep=KeepReport(persist_error="training waits until /ckpt can be listed", is_waiting=True))
    at = view(0, state=state(cause=cause), samples={member(0): waiting})
    keep = Keep(size_limit="1Gi", persist_to="/ckpt", copies=0)
    expected = ("PersistUnreadable", "j-0: training waits until /ckpt can be listed")
    assert reason_of(at, pod(0), keep=keep) == expected


def test_a_restarting_job_has_the_cause_of_the_round() -> None:
    at = view(0, 1, state=state(round=2, cause=Cause.WORKER_FAILED, message="rank 1 exited with code 3"), **ROUND)
    assert reason_of(at, pod(0), pod(1), replicas=2) == ("WorkerFailed", "rank 1 exited with code 3")


def test_a_job_that_ran_and_has_too_few_nodes_is_below_min_replicas() -> None:
    at = view(0, spec=record(0, 1), state=state(round=2, cause=Cause.NODE_LOST, message="j-1-a was lost"), **ROUND)
    expected = ("BelowMinReplicas", "1 of at least 2 nodes have joined; j-1-a was lost")
    assert reason_of(at, pod(0), replicas=2) == expected


def test_a_smaller_round_has_the_reason_of_the_missing_nodes() -> None:
    at = running(1, spec=record(0, 1), state=active(1))
    assert reason_of(at, BAD_IMAGE, pod(1), replicas=2, min_replicas=1)[0] == "ImagePullBackOff"
    assert reason_of(at, pod(1), replicas=2, min_replicas=1) == ("NodesMissing", "1 of 2 nodes are running")


def test_a_running_job_whose_steps_are_not_persisted_has_the_reason() -> None:
    full = samples(keep=KeepReport(persist_error="the disk is full"))
    of: dict[str, Any] = {"keep": Keep(size_limit="1Gi", persist_to="/ckpt", copies=0)}
    assert reason_of(running(0, samples={member(0): full}), pod(0), **of) == ("PersistFailed", "j-0: the disk is full")
    assert reason_of(running(0, samples={member(0): samples(keep=KeepReport())}), pod(0), **of) == ("", "")
    smaller = running(0, spec=record(0, 1), state=active(0), samples={member(0): full})
    assert reason_of(smaller, pod(0), replicas=2, min_replicas=1, **of)[0] == "NodesMissing"


def test_a_job_whose_workers_wait_for_a_step_has_the_reason() -> None:
    of: dict[str, Any] = {"keep": Keep(size_limit="1Gi", persist_to="/ckpt", copies=0)}
    waits = samples(keep=KeepReport(restoring=52, persist_error="the disk is full"))
    expected = ("RestoringStep", "j-0: its workers wait for step 52, which it restores")
    assert reason_of(running(0, samples={member(0): waits}), pod(0), **of) == expected
    smaller = running(0, spec=record(0, 1), state=active(0), samples={member(0): waits})
    assert reason_of(smaller, pod(0), replicas=2, min_replicas=1, **of) == expected
    unreadable = samples(keep=KeepReport(restoring=52, persist_error="training waits", is_waiting=True))
    assert reason_of(running(0, samples={member(0): unreadable}), pod(0), **of)[0] == "PersistUnreadable"


def test_a_failed_job_has_its_reason() -> None:
    at = view(state=state(RoundPhase.FAILED, cause=Cause.OPERATOR, message="DeadlineExceeded: too long"))
    assert reason_of(at) == ("DeadlineExceeded", "too long")


def test_an_outage_of_etcd_takes_precedence() -> None:
    assert reason_of(running(0), etcd_trouble="etcd does not answer") == (
        "RendezvousUnavailable",
        "etcd does not answer",
    )


def test_a_job_whose_pods_have_not_stopped_yet_is_suspending() -> None:
    at = view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED))
    assert reason_of(at, pod(0, terminating=True), suspend=True) == ("Suspending", "waiting for 1 pod to stop")
