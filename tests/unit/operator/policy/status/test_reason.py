"""The word and the sentence of `kubectl get`: there for what is wrong, empty for what is well."""

from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.policy.status.build import next_status
from testing.builders import active, job, membership, pod, record, running, seen, view, world

BAD_IMAGE = pod(0, phase="Pending", reason="ImagePullBackOff", message="Back-off pulling image x")
ROUND = {"membership": membership(0, 1)}


def said(
    at: RendezvousView, *pods: Any, job_state: JobState | None = None, trouble: str = "", **spec: Any
) -> tuple[str, str]:
    known = job_state or JobState()
    status: JobStatus = next_status(seen(job(**spec), at, *pods, job_state=known, etcd_trouble=trouble))
    return status.reason, status.message


@pytest.mark.parametrize(
    ("at", "pods"),
    [
        (running(0), (pod(0),)),
        (view(0, world=world(RoundPhase.SUCCEEDED), membership=membership(0)), ()),
    ],
    ids=["running", "succeeded"],
)
def test_of_a_healthy_job_nothing_is_said(at: RendezvousView, pods: tuple[Any, ...]) -> None:
    assert said(at, *pods) == ("", "")


def test_of_a_suspended_job_nothing_is_said() -> None:
    assert said(RendezvousView(), suspend=True) == ("", "")


def test_a_missing_image_is_said_of_a_pending_job() -> None:
    expected = ("ImagePullBackOff", "pod j-0-a: ImagePullBackOff: Back-off pulling image x")
    assert said(view(0, nodes={}), BAD_IMAGE) == expected


def test_a_refusal_of_the_api_server_is_said_in_its_words() -> None:
    refused = JobState(failed_creation_reason="exceeded quota: gpus")
    assert said(view(0, nodes={}), job_state=refused) == ("PodsNotCreated", "exceeded quota: gpus")


def test_a_job_that_only_starts_has_a_sentence_and_no_reason() -> None:
    assert said(view(0, nodes={}), pod(0, phase="Pending")) == ("", "waiting for pods")


def test_a_restarting_job_says_what_opened_the_round() -> None:
    at = view(0, 1, world=world(round=2, cause=Cause.WORKER_FAILED, message="rank 1 exited with code 3"), **ROUND)
    assert said(at, pod(0), pod(1), replicas=2) == ("WorkerFailed", "rank 1 exited with code 3")


def test_a_job_that_ran_and_has_too_few_nodes_now_waits_for_them() -> None:
    at = view(0, spec=record(0, 1), world=world(round=2, cause=Cause.NODE_LOST, message="j-1-a was lost"), **ROUND)
    expected = ("BelowMinReplicas", "1 of at least 2 nodes have joined; j-1-a was lost")
    assert said(at, pod(0), replicas=2) == expected


def test_a_smaller_round_says_why_the_rest_is_missing() -> None:
    at = running(1, spec=record(0, 1), world=active(1))
    assert said(at, BAD_IMAGE, pod(1), replicas=2, min_replicas=1)[0] == "ImagePullBackOff"
    assert said(at, pod(1), replicas=2, min_replicas=1) == ("NodesMissing", "1 of 2 nodes are running")


def test_a_failed_job_says_why_it_failed() -> None:
    at = view(world=world(RoundPhase.FAILED, cause=Cause.OPERATOR, message="DeadlineExceeded: too long"))
    assert said(at) == ("DeadlineExceeded", "too long")


def test_an_outage_of_etcd_is_said_before_all_else() -> None:
    assert said(running(0), trouble="etcd does not answer") == ("RendezvousUnavailable", "etcd does not answer")


def test_a_job_whose_pods_are_still_to_stop_is_suspending() -> None:
    at = view(spec=record(suspended=True), world=world(RoundPhase.SUSPENDED))
    assert said(at, pod(0, terminating=True), suspend=True) == ("Suspending", "waiting for 1 pod to stop")
