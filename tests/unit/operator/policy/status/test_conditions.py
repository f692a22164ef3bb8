"""Each condition from the snapshot, and the phase that follows from them."""

from typing import Any

import pytest

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.spec import Keep
from elasticjob_api.status import Condition, JobStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.status.conditions import ConditionValue, conditions, evaluate, is_true, phase
from testing.builders import (
    NOW,
    active,
    ago,
    condition,
    job,
    membership,
    pod,
    record,
    running,
    seen,
    state,
    view,
)

C = ConditionType
STOPPED = view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED))
NOTHING = RendezvousView()


def condition_of(at: JobSnapshot, name: ConditionType) -> tuple[bool, str]:
    value = evaluate(at)[name]
    return value.is_true, value.reason


def phase_of(at: JobSnapshot) -> Phase:
    return phase(conditions(evaluate(at), (), now=NOW, generation=1))


# One condition at a time.


def test_every_condition_is_evaluated() -> None:
    assert set(evaluate(seen(job(keep=Keep(size_limit="1Gi")), NOTHING))) == set(C)
    assert set(evaluate(seen(job(), NOTHING))) == set(C) - {C.KEEP_DEGRADED}


@pytest.mark.parametrize(
    ("suspend", "at", "expected"),
    [
        (False, running(0), (False, "NotSuspended")),
        (True, NOTHING, (True, "Suspended")),  # created suspended
        (True, running(0), (False, "Suspending")),  # workers still run: not yet
        (True, view(spec=record(suspended=True), state=state(RoundPhase.SUSPENDED)), (True, "Suspended")),
        (True, view(spec=record(), state=state(RoundPhase.SUCCEEDED)), (False, "NotSuspended")),
    ],
)
def test_suspended_is_true_once_the_record_is_suspended(
    at: RendezvousView, expected: tuple[bool, str], *, suspend: bool
) -> None:
    assert condition_of(seen(job(suspend=suspend), at), C.SUSPENDED) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (NOTHING, (False, "NoActiveRound")),
        (view(state=state()), (False, "NoActiveRound")),
        (running(0), (False, "TooFewNodes")),
        (running(0, 1), (True, "MembersJoined")),
        (running(0, 1, 2), (True, "MembersJoined")),
    ],
)
def test_quorum_is_reached_while_a_round_has_at_least_min_nodes(at: RendezvousView, expected: tuple[bool, str]) -> None:
    assert condition_of(seen(job(replicas=3, min_replicas=2), at), C.QUORUM_REACHED) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (running(0, 1), (True, "NodesMissing")),
        (running(0, 1, 2), (False, "NotDegraded")),
        (view(0, 1, state=state()), (False, "NotDegraded")),
    ],
)
def test_degraded_means_that_a_round_runs_with_fewer_nodes_than_wanted(
    at: RendezvousView, expected: tuple[bool, str]
) -> None:
    assert condition_of(seen(job(replicas=3, min_replicas=2), at), C.DEGRADED) == expected


def resizing(at: RendezvousView, before: JobStatus, **fields: Any) -> bool:
    of = job(status=before, **{"replicas": 3, "min_replicas": 1, **fields})
    return evaluate(seen(of, at))[C.RESIZING].is_true


WAS_RESIZING = JobStatus(desired_replicas=3, conditions=(condition(C.RESIZING),))


@pytest.mark.parametrize(
    ("at", "before", "expected"),
    [
        (running(0, 1), JobStatus(desired_replicas=2), True),  # a new size
        (running(0, 1), WAS_RESIZING, True),  # until a round has it
        (view(0, 1, state=state(), membership=membership(0, 1)), WAS_RESIZING, True),
        (running(0, 1, 2), WAS_RESIZING, False),  # a round has it
        (running(0, 1), JobStatus(), False),  # no earlier size is known
        (running(0, 1), JobStatus(desired_replicas=3), False),  # a node was lost: not a resize
        (view(state=state()), JobStatus(desired_replicas=2), False),  # before any round there is nothing to resize
    ],
)
def test_resizing_is_true_from_a_new_size_until_a_round_has_it(
    at: RendezvousView, before: JobStatus, *, expected: bool
) -> None:
    assert resizing(at, before) is expected


@pytest.mark.parametrize("at", [view(state=state(RoundPhase.FAILED), membership=membership(0)), running(0)])
def test_an_ended_or_suspended_job_is_not_resizing(at: RendezvousView) -> None:
    assert not resizing(at, WAS_RESIZING, suspend=at.active_state is not None)


def test_the_message_of_an_etcd_outage_is_that_of_the_error() -> None:
    found = evaluate(seen(job(), NOTHING, etcd_trouble="no answer from etcd-0"))[C.RENDEZVOUS_UNAVAILABLE]
    assert found == ConditionValue("True", "Unreachable", "no answer from etcd-0")


def test_an_unreadable_record_is_named() -> None:
    at = view(spec=None, spec_revision=4, unreadable=("P/c/spec: version 9",))
    found = evaluate(seen(job(), at))[C.RENDEZVOUS_UNAVAILABLE]
    assert (found.is_true, found.message) == (True, "P/c/spec: version 9")


def test_a_job_without_keys_is_not_unavailable() -> None:
    assert not evaluate(seen(job(), NOTHING))[C.RENDEZVOUS_UNAVAILABLE].is_true


@pytest.mark.parametrize(
    ("cause", "detail", "reason", "message"),
    [
        (Cause.MAX_RESTARTS, "4 of 3", "MaxRestartsExceeded", "4 of 3"),
        (Cause.FAIL_JOB_RULE, "code 3", "FailJobRule", "code 3"),
        (Cause.JOIN_TIMEOUT, "slot 1", "JoinTimeout", "slot 1"),
        (Cause.OPERATOR, "BackoffLimitExceeded: 7 pods failed", "BackoffLimitExceeded", "7 pods failed"),
    ],
)
def test_failed_has_the_reason_in_the_rendezvous_state(cause: Cause, detail: str, reason: str, message: str) -> None:
    at = view(state=state(RoundPhase.FAILED, cause=cause, message=detail))
    assert evaluate(seen(job(), at))[C.FAILED] == ConditionValue("True", reason, message)


def test_complete_and_failed_exclude_each_other() -> None:
    for ended, complete in ((RoundPhase.SUCCEEDED, True), (RoundPhase.FAILED, False)):
        found = evaluate(seen(job(), view(state=state(ended, cause=Cause.MAX_RESTARTS))))
        assert (found[C.COMPLETE].is_true, found[C.FAILED].is_true) == (complete, not complete)


# The conditions to write.


def test_a_condition_keeps_its_time_while_its_status_does_not_change() -> None:
    before = condition("Running", "False", "Starting", last_transition_time=ago(60))
    after = conditions({C.RUNNING: ConditionValue("False", "Restarting", "why")}, [before], now=NOW, generation=3)
    assert after == (
        condition(
            "Running", "False", "Restarting", message="why", last_transition_time=ago(60), observed_generation=3
        ),
    )  # fmt: skip


def test_a_condition_has_the_time_at_which_its_status_changed() -> None:
    before = condition("Running", "False", last_transition_time=ago(60))
    after = conditions({C.RUNNING: ConditionValue("True", "RoundActive")}, [before], now=NOW, generation=1)
    assert [each.last_transition_time for each in after] == [NOW]


def test_a_condition_without_a_new_value_is_kept() -> None:
    foreign = condition("Foreign", "True")
    after = conditions({C.RUNNING: ConditionValue("True", "RoundActive")}, [foreign], now=NOW, generation=1)
    assert foreign in after
    assert len(after) == 2


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_is_true_needs_the_status_true(status: str, *, expected: bool) -> None:
    assert is_true([condition("Failed", status)], C.FAILED) is expected


def test_an_absent_condition_is_not_true() -> None:
    assert not is_true([], C.FAILED)


# The phase.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Failed", Phase.FAILED),
        ("Complete", Phase.SUCCEEDED),
        ("Suspended", Phase.SUSPENDED),
        ("Running", Phase.RUNNING),
    ],
)
def test_the_phase_is_that_of_the_condition_that_is_true(name: str, expected: Phase) -> None:
    assert phase([condition(name)]) is expected


def test_the_end_of_a_job_takes_precedence_over_all_other_phases() -> None:
    every = [condition("Suspended"), condition("Running"), condition("Resizing"), condition("Complete")]
    assert phase(every) is Phase.SUCCEEDED
    assert phase([*every, condition("Failed")]) is Phase.FAILED


def test_a_job_without_known_conditions_is_pending() -> None:
    none: list[Condition] = []
    assert phase(none) is Phase.PENDING
    assert phase([condition("Running", "False", "AReasonOfANewerOperator")]) is Phase.PENDING


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Cause.WORKER_FAILED, Phase.RESTARTING),
        (Cause.NODE_LOST, Phase.RESTARTING),
        (Cause.NODE_LEFT, Phase.RESTARTING),
        (Cause.RESTART_REQUESTED, Phase.RESTARTING),
        (Cause.NODE_JOINED, Phase.RESIZING),
        (Cause.SCALED_DOWN, Phase.RESIZING),
        (Cause.FIRST, Phase.STARTING),
        (Cause.RESUMED, Phase.STARTING),
    ],
)
def test_the_cause_of_a_forming_round_determines_the_phase(cause: Cause, expected: Phase) -> None:
    at = view(0, state=state(cause=cause))
    assert phase_of(seen(job(), at, pod(0))) is expected


def test_the_message_of_a_restart_is_its_cause() -> None:
    at = view(0, state=state(cause=Cause.WORKER_FAILED, message="rank 1 exited with 3"))
    assert evaluate(seen(job(), at))[C.RUNNING].message == "rank 1 exited with 3"


def test_a_job_whose_active_round_has_the_wrong_size_is_resizing() -> None:
    before = JobStatus(desired_replicas=1)
    at = seen(job(replicas=2, min_replicas=1, status=before), running(0))
    assert phase_of(at) is Phase.RESIZING


def test_a_job_whose_pods_do_not_exist_yet_is_pending() -> None:
    assert phase_of(seen(job(), view(0, nodes={}))) is Phase.PENDING


def test_a_job_whose_pods_run_is_starting_and_has_the_number_of_joined_nodes() -> None:
    at = seen(job(replicas=2), view(0, 1, nodes={}), pod(0), pod(1))
    assert (phase_of(at), evaluate(at)[C.RUNNING].message) == (Phase.STARTING, "0 of 2 nodes joined")


def test_the_message_of_a_pending_job_is_the_reason_why_its_pod_does_not_start() -> None:
    at = seen(job(), view(0, nodes={}), pod(0, phase="Pending", reason="ErrImagePull", message="not found"))
    assert (phase_of(at), evaluate(at)[C.RUNNING].message) == (Phase.PENDING, "pod j-0-a: ErrImagePull: not found")


def test_the_message_of_a_pending_job_is_the_error_of_the_api_server() -> None:
    at = seen(job(), view(0, nodes={}), job_state=JobState(failed_creation_reason="exceeded quota: gpus"))
    assert (phase_of(at), evaluate(at)[C.RUNNING].message) == (Phase.PENDING, "exceeded quota: gpus")


def test_the_message_of_an_active_round_has_its_number_and_size() -> None:
    at = view(0, 1, state=active(0, 1, round=3))
    assert evaluate(seen(job(replicas=2), at))[C.RUNNING].message == "round 3 runs with 2 nodes"


@pytest.mark.parametrize("phase", [RoundPhase.SUCCEEDED, RoundPhase.FAILED])
def test_an_ended_job_is_not_running(phase: RoundPhase) -> None:
    assert condition_of(seen(job(), view(state=state(phase, cause=Cause.MAX_RESTARTS))), C.RUNNING) == (
        False,
        "Finished",
    )


@pytest.mark.parametrize("at", [running(0), view(0, state=state()), STOPPED], ids=["active", "forming", "suspended"])
def test_a_job_is_not_suspended_before_its_pods_are_gone(at: RendezvousView) -> None:
    at_suspension = seen(job(suspend=True), at, pod(0, terminating=True))
    assert condition_of(at_suspension, C.SUSPENDED) == (False, "Suspending")
    assert phase_of(at_suspension) is Phase.RUNNING


@pytest.mark.parametrize("at", [view(0, state=state()), STOPPED], ids=["forming", "suspended"])
def test_a_job_whose_pods_stop_for_a_suspension_is_suspending_and_not_resizing(at: RendezvousView) -> None:
    values = evaluate(seen(job(suspend=True), at, pod(0, terminating=True)))
    assert [values[name].reason for name in (C.RUNNING, C.SUSPENDED)] == ["Suspending", "Suspending"]
    assert values[C.RUNNING].message == values[C.SUSPENDED].message
    assert not values[C.RESIZING].is_true


def test_ended_pods_do_not_delay_a_suspension() -> None:
    assert phase_of(seen(job(suspend=True), STOPPED, pod(0, phase="Succeeded"))) is Phase.SUSPENDED


def test_a_round_whose_pods_have_all_ended_is_restarting_and_not_unreachable() -> None:
    gone = view(state=active(0), membership=membership(0))
    ended = evaluate(seen(job(), gone, pod(0, phase="Failed", exit_code=1)))[ConditionType.RUNNING]
    assert (ended.status, ended.reason) == ("False", "Restarting")
    silent = evaluate(seen(job(), gone, pod(0)))[ConditionType.RUNNING]
    assert (silent.status, silent.reason) == ("Unknown", "AgentsUnreachable")
