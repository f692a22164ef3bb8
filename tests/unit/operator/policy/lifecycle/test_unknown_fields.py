"""Fields of a newer CRD: a job that has not started waits for them, a running job continues without them."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import ConditionType, EventReason
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.actions import CreatePod, WriteSpec
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.unknown_fields import describe, is_waiting
from elasticjob_operator.policy.status.build import next_status
from elasticjob_operator.policy.status.events import events
from testing.builders import NOW, ago, job, pod, record, running, seen, state, view

IDS = Ids(suffix=lambda: "fresh", nonce=lambda: "nonce-01")
SUSPENDED = view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED))


def newer(at: RendezvousView, *pods: Any, **fields: Any) -> JobSnapshot:
    """Return a snapshot of a job of two nodes with a field that this version does not know."""
    known = job(**{"replicas": 2, "min_replicas": 1, **fields})
    return seen(replace(known, unknown_fields=("spec.newThing",)), at, *pods)


def unknown_fields_condition(status: JobStatus) -> tuple[str, str]:
    [found] = [each for each in status.conditions if each.type == ConditionType.UNKNOWN_FIELDS]
    return found.status, found.reason


@pytest.mark.parametrize(
    ("at", "waiting"),
    [
        pytest.param(newer(RendezvousView()), True, id="not started"),
        pytest.param(newer(SUSPENDED), True, id="about to resume"),
        pytest.param(newer(RendezvousView(), suspend=True), False, id="suspended"),
        pytest.param(newer(running(0, 1), pod(0), pod(1)), False, id="running"),
        pytest.param(
            newer(RendezvousView(), status=JobStatus(start_time=NOW)),
            False,
            id="etcd was wiped, the status has a start time",
        ),
        pytest.param(newer(RendezvousView(), pod(0)), False, id="etcd and status are lost, a pod is live"),
        pytest.param(newer(RendezvousView(), pod(0, terminating=True)), True, id="an earlier pod is terminating"),
        pytest.param(seen(job(), RendezvousView()), False, id="every field is known"),
    ],
)
def test_only_a_job_that_has_not_started_or_resumed_waits(at: JobSnapshot, *, waiting: bool) -> None:
    assert is_waiting(at) is waiting


@pytest.mark.parametrize("at", [RendezvousView(), SUSPENDED])
def test_a_waiting_job_has_no_slot_map_no_start_time_and_the_field_in_its_message(at: RendezvousView) -> None:
    made = plan(newer(at), IDS)
    assert (made.actions, made.status is not None) == ((), True)
    status = made.status or JobStatus()
    assert (status.start_time, status.reason) == ("", "UnknownFields")
    assert "spec.newThing" in status.message
    assert unknown_fields_condition(status) == ("True", "Waits")


def test_a_waiting_job_starts_when_every_field_is_known() -> None:
    before = next_status(newer(RendezvousView()))
    made = plan(seen(job(replicas=2, status=before), RendezvousView()), IDS)
    assert [type(action) for action in made.actions] == [WriteSpec]
    assert made.status is not None
    assert (made.status.start_time, made.status.reason) == (NOW, "")


def test_a_pod_of_a_running_job_is_replaced_and_the_field_is_reported_as_ignored() -> None:
    made = plan(newer(running(0, 1), pod(0), pod(1, phase="Failed", exit_code=1)), IDS)
    [write] = [action for action in made.actions if isinstance(action, WriteSpec)]
    assert write.record.replacements == 1
    assert made.status is not None
    assert unknown_fields_condition(made.status) == ("True", "Ignored")


def test_the_field_is_the_reason_of_a_running_job_without_other_problems() -> None:
    status = next_status(newer(running(0, 1), pod(0), pod(1)))
    assert (status.reason, "spec.newThing" in status.message) == ("UnknownFields", True)
    assert next_status(newer(running(0), pod(0))).reason == "NodesMissing"


def test_a_running_job_fails_at_its_deadline() -> None:
    late = JobStatus(start_time=ago(11.0))
    [write] = plan(newer(running(0, 1), pod(0), pod(1), status=late, active_deadline_s=10.0), IDS).actions
    assert isinstance(write, WriteSpec)
    assert write.state is not None
    assert (write.state.phase, write.state.message.partition(":")[0]) == (RoundPhase.FAILED, "DeadlineExceeded")


def test_a_running_job_is_suspended_and_scaled() -> None:
    [suspended] = plan(newer(running(0, 1), pod(0), pod(1), suspend=True), IDS).actions
    assert isinstance(suspended, WriteSpec)
    assert suspended.record.suspended
    [scaled] = plan(newer(running(0, 1), pod(0), pod(1), replicas=3, max_replicas=3), IDS).actions
    assert isinstance(scaled, WriteSpec)
    assert len(scaled.record.slots) == 3
    assert not any(isinstance(action, CreatePod) for action in (suspended, scaled))


def test_the_event_about_the_field_is_written_once() -> None:
    first = next_status(newer(RendezvousView()))
    reasons = [event.reason for event in events(JobStatus(), first)]
    assert reasons == [EventReason.UNKNOWN_FIELDS, EventReason.CREATED]
    assert events(first, next_status(newer(RendezvousView(), status=first))) == ()


def test_a_message_names_some_fields_and_is_never_long() -> None:
    text = describe(tuple(f"spec.{'x' * 5000}{n}" for n in range(1000)), waiting=True)
    assert "and 992 more" in text
    assert len(text) < 1024
