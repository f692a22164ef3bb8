"""The reason of a failed job, kept in the world and read back from it."""

import pytest

from elasticjob_api.constants import FailedReason
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_operator.policy.lifecycle import state_transitions
from elasticjob_operator.policy.lifecycle.job_failure import JobFailure, failure_of
from testing.builders import record, world


@pytest.mark.parametrize("reason", FailedReason)
def test_a_verdict_comes_back_from_the_world_as_it_was_given(reason: FailedReason) -> None:
    given = JobFailure(reason, "3 pods failed: j-1-a: Error: exit code 1")
    assert failure_of(state_transitions.failed_state(None, record(), given, "n")) == given


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.MAX_RESTARTS, FailedReason.MAX_RESTARTS),
        (Cause.FAIL_JOB_RULE, FailedReason.FAIL_JOB_RULE),
        (Cause.JOIN_TIMEOUT, FailedReason.JOIN_TIMEOUT),
    ],
)
def test_a_verdict_of_the_closer_is_told_by_its_cause(cause: Cause, reason: FailedReason) -> None:
    assert failure_of(world(RoundPhase.FAILED, cause=cause, message="why: so")) == JobFailure(reason, "why: so")


@pytest.mark.parametrize("detail", ["", "no colon", "AReasonOfTomorrow: x"])
def test_words_that_nobody_knows_are_kept_as_the_message(detail: str) -> None:
    assert failure_of(world(RoundPhase.FAILED, cause=Cause.OPERATOR, message=detail)).message == detail
