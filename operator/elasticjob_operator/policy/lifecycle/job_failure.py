"""PURE: the operator's own verdict that a job has failed, and the way it is kept in the world's `detail`.

The verdict is written into the world before it is in any status, so its reason must survive there: the reason,
a colon, a sentence.
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
    """Why the job has failed."""

    reason: FailedReason
    message: str

    @property
    def detail(self) -> str:
        """As the world keeps it."""
        return f"{self.reason}: {self.message}"


def failure_of(world: RendezvousState) -> JobFailure:
    """The failure in a failed world, the operator's own or the closer's."""
    if world.cause is not Cause.OPERATOR:
        return JobFailure(_BY_CAUSE.get(world.cause, FailedReason.MAX_RESTARTS), world.message)
    reason, _, message = world.message.partition(": ")
    if reason not in set(FailedReason):
        return JobFailure(FailedReason.BELOW_MIN, world.message)
    return JobFailure(FailedReason(reason), message)
