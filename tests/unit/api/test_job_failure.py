"""The reason of a failed job in the rendezvous state."""

import pytest

from elasticjob_api.constants import FailedReason
from elasticjob_api.job_failure import JobFailure, failure_of
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase


def failed(cause: Cause, message: str) -> RendezvousState:
    """Return the state of a job that failed for this cause."""
    return RendezvousState(phase=RoundPhase.FAILED, round=2, nonce="n", cause=cause, message=message)


@pytest.mark.parametrize("reason", FailedReason)
def test_the_operators_verdict_is_read_back_unchanged(reason: FailedReason) -> None:
    given = JobFailure(reason, "3 pods failed: j-1-a: Error: exit code 1")
    assert failure_of(failed(Cause.OPERATOR, given.detail)) == given


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.MAX_RESTARTS, FailedReason.MAX_RESTARTS),
        (Cause.FAIL_JOB_RULE, FailedReason.FAIL_JOB_RULE),
        (Cause.JOIN_TIMEOUT, FailedReason.JOIN_TIMEOUT),
    ],
)
def test_the_leaders_verdict_is_read_from_the_cause(cause: Cause, reason: FailedReason) -> None:
    assert failure_of(failed(cause, "why: so")) == JobFailure(reason, "why: so")


@pytest.mark.parametrize("detail", ["", "no colon", "AReasonOfTomorrow: x"])
def test_an_unknown_text_is_kept_as_the_message(detail: str) -> None:
    assert failure_of(failed(Cause.OPERATOR, detail)).message == detail
