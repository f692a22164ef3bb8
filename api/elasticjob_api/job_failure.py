"""Why a job has failed, as the rendezvous state has it: by its cause, or as text of the form `reason: sentence`.

The operator's verdict is in the rendezvous state before it is in any status, so that record must preserve its reason.
The text has it, because operators of other versions read it there, and agents print it.
"""

from dataclasses import dataclass

from elasticjob_api.constants import FailedReason
from elasticjob_api.rendezvous_state import Cause, RendezvousState

_BY_CAUSE = {
    Cause.MAX_RESTARTS: FailedReason.MAX_RESTARTS,
    Cause.FAIL_JOB_RULE: FailedReason.FAIL_JOB_RULE,
    Cause.JOIN_TIMEOUT: FailedReason.JOIN_TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The reason why the job has failed."""

    reason: FailedReason
    message: str

    @property
    def detail(self) -> str:
        """The text in the rendezvous state."""
        return f"{self.reason}: {self.message}"


def failure_of(state: RendezvousState) -> JobFailure:
    """Return the failure in a failed rendezvous state; the operator or the leader may have written it."""
    if state.cause is not Cause.OPERATOR:
        return JobFailure(_BY_CAUSE.get(state.cause, FailedReason.MAX_RESTARTS), state.message)
    reason, _, message = state.message.partition(": ")
    if reason not in set(FailedReason):
        return JobFailure(FailedReason.BELOW_MIN, state.message)
    return JobFailure(FailedReason(reason), message)
