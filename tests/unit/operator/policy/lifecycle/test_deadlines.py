"""activeDeadlineSeconds and startupDeadlineSeconds: when they end, and when they restart."""

from collections.abc import Mapping
from typing import Any

import pytest

from elasticjob_api.constants import FailedReason
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.deadlines import exceeded_deadline, next_deadline_s
from testing.builders import NOW_S, active, ago, job, membership, state, view

STARTED = JobStatus(start_time=ago(100))
NO_KEYS: Mapping[str, Any] = {}


def exceeded(
    status: JobStatus = STARTED, at: RendezvousState | None = None, keys: Mapping[str, Any] = NO_KEYS, **spec: Any
) -> FailedReason | None:
    failure = exceeded_deadline(job(**spec), status, view(state=at, **keys), NOW_S)
    return failure.reason if failure else None


def upcoming(status: JobStatus = STARTED, at: RendezvousState | None = None, **spec: Any) -> float | None:
    return next_deadline_s(job(**spec), status, view(state=at), NOW_S)


@pytest.mark.parametrize(
    ("after_s", "reason"), [(99.0, FailedReason.DEADLINE), (100.0, FailedReason.DEADLINE), (100.5, None)]
)
def test_a_job_fails_at_its_active_deadline(after_s: float, reason: FailedReason | None) -> None:
    assert exceeded(at=active(0), active_deadline_s=after_s) is reason


@pytest.mark.parametrize("at", [None, state(), state(RoundPhase.SUSPENDED)])
def test_too_few_nodes_by_the_startup_deadline_fail_the_job(at: RendezvousState | None) -> None:
    assert exceeded(at=at, startup_deadline_s=100.0) is FailedReason.STARTUP_DEADLINE


def test_an_active_round_ends_the_startup() -> None:
    assert exceeded(at=active(0), startup_deadline_s=50.0) is None


def test_an_earlier_round_ends_the_startup_for_good() -> None:
    status = JobStatus(start_time=ago(100), last_rendezvous_time=ago(80))
    assert exceeded(status, state(round=2), startup_deadline_s=50.0) is None


def test_a_round_before_a_suspension_does_not_end_the_startup_after_it() -> None:
    resumed = JobStatus(start_time=ago(100), last_rendezvous_time=ago(500))
    assert exceeded(resumed, state(round=2), startup_deadline_s=50.0) is FailedReason.STARTUP_DEADLINE


SCALED = JobStatus(start_time=ago(500), last_rendezvous_time=ago(400), last_scale_time=ago(100))


@pytest.mark.parametrize(
    ("members", "reason"), [(2, FailedReason.STARTUP_DEADLINE), (3, None)], ids=["too few for its new size", "enough"]
)
@pytest.mark.parametrize("at", [None, state(round=2, cause=Cause.NODE_JOINED)], ids=["active", "forming"])
def test_scaling_a_job_restarts_its_startup_deadline(
    members: int, reason: FailedReason | None, at: RendezvousState | None
) -> None:
    keys = {"membership": membership(*range(members))}
    current = at or active(*range(members))
    assert exceeded(SCALED, current, keys, replicas=3, startup_deadline_s=100.0) is reason
    assert exceeded(SCALED, current, keys, replicas=3, startup_deadline_s=101.0) is None


def test_a_later_round_does_not_fail_a_job_that_was_scaled_long_ago() -> None:
    keys = {"membership": membership(0, 1, 2)}
    at = state(round=7, cause=Cause.WORKER_FAILED)
    assert exceeded(SCALED, at, keys, replicas=4, min_replicas=2, startup_deadline_s=10.0) is None


def test_a_resume_restarts_the_startup_deadline_despite_earlier_members() -> None:
    keys = {"membership": membership(0)}
    at = state(round=2, cause=Cause.RESUMED)
    assert exceeded(STARTED, at, keys, startup_deadline_s=50.0) is FailedReason.STARTUP_DEADLINE


def test_a_suspended_job_has_no_deadline() -> None:
    spec: dict[str, Any] = {"active_deadline_s": 1.0, "startup_deadline_s": 1.0}
    assert (exceeded(JobStatus(), **spec), upcoming(JobStatus(), **spec)) == (None, None)


def test_a_job_without_deadlines_has_none() -> None:
    assert (exceeded(), upcoming()) == (None, None)


def test_the_next_deadline_is_the_earliest_that_has_not_passed() -> None:
    assert upcoming(active_deadline_s=300.0, startup_deadline_s=150.0) == NOW_S + 50.0
    assert upcoming(at=active(0), active_deadline_s=300.0, startup_deadline_s=150.0) == NOW_S + 200.0
    assert upcoming(active_deadline_s=99.0) is None


def test_the_message_has_the_field_and_its_value() -> None:
    failure = exceeded_deadline(job(replicas=3, startup_deadline_s=60.0), STARTED, view(), NOW_S)
    assert failure is not None
    assert failure.message == "fewer than 3 nodes joined a round within startupDeadlineSeconds (60)"
