"""Conditions for `wait`, and whether a status has reached them, has not yet, or never can."""

from dataclasses import dataclass

from elasticjob.errors import CannotHappen, ElasticJobError, JobFailed
from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.status import JobStatus

_ENDED = (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """A phase, or a condition with its status; success if neither is given."""

    phase: Phase | None = None
    condition: str | None = None
    status: str = "True"

    def __str__(self) -> str:
        """Return the text for messages."""
        if self.condition is not None:
            return f"condition {self.condition}={self.status}"
        return f"phase {self.phase or Phase.SUCCEEDED}"


def wait_condition(phase: Phase | str | None, condition: ConditionType | str | None) -> WaitCondition:
    """Return the condition of `wait(phase=…)`, `wait(condition="Degraded=False")` or `wait()`; raise ValueError."""
    if phase is not None and condition is not None:
        raise ValueError("wait() takes a phase or a condition, not both: wait for one, then for the other")
    if phase is not None:
        return WaitCondition(phase=Phase(phase))
    if condition is None:
        return WaitCondition()
    name, _, status = str(condition).partition("=")
    return WaitCondition(condition=ConditionType(name).value, status=(status or "True").capitalize())


def has_ended(status: JobStatus) -> bool:
    """Return whether the job has ended."""
    return status.phase in _ENDED


def is_reached(condition: WaitCondition, status: JobStatus) -> bool:
    """Return whether the status has reached the condition."""
    if condition.condition is not None:
        return any(each.type == condition.condition and each.status == condition.status for each in status.conditions)
    return status.phase is (condition.phase or Phase.SUCCEEDED)


def unreachable_reason(condition: WaitCondition, name: str, status: JobStatus) -> ElasticJobError | None:
    """Return the error to raise if the condition was not reached and never can be."""
    if not has_ended(status) or is_reached(condition, status):
        return None
    if status.phase is Phase.FAILED:
        return JobFailed(f"job {name} failed: {failure(status)}", status)
    return CannotHappen(f"job {name} has ended as {status.phase}, so it can never reach {condition}")


def failure(status: JobStatus) -> str:
    """Return the reason of a failure in one sentence: the verdict and the root cause."""
    failed = next((each for each in status.conditions if each.type == ConditionType.FAILED), None)
    verdict = f"{failed.reason}: {failed.message}" if failed else (status.message or "no reason was given")
    last = status.last_failure
    if last is None:
        return verdict
    cause = f"rank {last.rank} in pod {last.pod_name} ended with exit code {last.exit_code}"
    lines = last.message.strip().splitlines()
    return f"{verdict}; last failure: {cause}" + (f": {lines[-1]}" if lines else "")
