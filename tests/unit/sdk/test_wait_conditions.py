"""Conditions of `wait`, and whether a status has reached them."""

import pytest

from elasticjob.errors import CannotHappen, JobFailed
from elasticjob.wait_conditions import WaitCondition, is_reached, unreachable_reason, wait_condition
from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.status import Condition, JobStatus, LastFailure


def test_without_arguments_success_is_waited_for() -> None:
    assert is_reached(wait_condition(None, None), JobStatus(phase=Phase.SUCCEEDED))
    assert not is_reached(wait_condition(None, None), JobStatus(phase=Phase.FAILED))


@pytest.mark.parametrize(
    ("text", "status", "reached"),
    [
        ("Running", "True", True),
        ("Running", "False", False),
        ("Running=False", "False", True),
        ("Running=false", "False", True),
        ("Running=Unknown", "Unknown", True),
    ],
)
def test_a_condition_is_reached_by_its_status(text: str, status: str, reached: bool) -> None:  # noqa: FBT001  # a table's column
    now = JobStatus(conditions=(Condition(type="Running", status=status, reason="R"),))
    assert is_reached(wait_condition(None, text), now) is reached


def test_a_condition_that_is_not_there_is_not_reached() -> None:
    assert not is_reached(wait_condition(None, "Running=False"), JobStatus())


@pytest.mark.parametrize(("phase", "condition"), [("Runing", None), (None, "Runing"), ("Running", "Running")])
def test_an_invalid_condition_is_a_value_error(phase: str | None, condition: str | None) -> None:
    with pytest.raises(ValueError, match=r"Runing|not both"):
        wait_condition(phase, condition)


def test_the_error_for_a_failed_job_has_the_reason() -> None:
    last = LastFailure(
        time="",
        round=3,
        pod_name="digits-1-x",
        rank=5,
        local_rank=1,
        exit_code=139,
        message="Traceback\nValueError: no",
    )
    failed = Condition(
        type=ConditionType.FAILED, status="True", reason="MaxRestartsExceeded", message="4 of 3 restarts"
    )
    now = JobStatus(phase=Phase.FAILED, conditions=(failed,), last_failure=last)
    never = unreachable_reason(WaitCondition(), "digits", now)
    assert isinstance(never, JobFailed)
    assert never.status is now
    assert str(never) == (
        "job digits failed: MaxRestartsExceeded: 4 of 3 restarts; last failure: rank 5 in pod digits-1-x ended with"
        " exit code 139: ValueError: no"
    )


def test_a_job_that_succeeded_will_never_run() -> None:
    never = unreachable_reason(wait_condition("Running", None), "digits", JobStatus(phase=Phase.SUCCEEDED))
    assert isinstance(never, CannotHappen)
    assert str(never) == "job digits has ended as Succeeded, so it can never reach phase Running"


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SUSPENDED, Phase.RESTARTING])
def test_a_job_that_has_not_ended_may_reach_any_condition(phase: Phase) -> None:
    assert unreachable_reason(WaitCondition(), "digits", JobStatus(phase=phase)) is None


def test_a_failed_job_has_reached_the_failure_that_was_waited_for() -> None:
    assert unreachable_reason(wait_condition("Failed", None), "digits", JobStatus(phase=Phase.FAILED)) is None
