"""PURE: what is waited for, and what a status says about it: reached, not yet, or never."""

from dataclasses import dataclass

from elasticjob.errors import CannotHappen, ElasticJobError, JobFailed
from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.status import JobStatus

_ENDED = (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """A phase, a condition with its status, or, with neither, success."""

    phase: Phase | None = None
    condition: str | None = None
    status: str = "True"

    def __str__(self) -> str:
        """For "… was waited for"."""
        if self.condition is not None:
            return f"condition {self.condition}={self.status}"
        return f"phase {self.phase or Phase.SUCCEEDED}"


def wait_condition(phase: Phase | str | None, condition: ConditionType | str | None) -> WaitCondition:
    """What `wait(phase=…)`, `wait(condition="Degraded=False")` and `wait()` mean; raises ValueError."""
    if phase is not None and condition is not None:
        raise ValueError("wait() takes a phase or a condition, not both: wait for one, then for the other")
    if phase is not None:
        return WaitCondition(phase=Phase(phase))
    if condition is None:
        return WaitCondition()
    name, _, status = str(condition).partition("=")
    return WaitCondition(condition=ConditionType(name).value, status=(status or "True").capitalize())


def has_ended(status: JobStatus) -> bool:
    """Whether nothing will happen to it any more."""
    return status.phase in _ENDED


def is_reached(condition: WaitCondition, status: JobStatus) -> bool:
    """Whether it is so now."""
    if condition.condition is not None:
        return any(each.type == condition.condition and each.status == condition.status for each in status.conditions)
    return status.phase is (condition.phase or Phase.SUCCEEDED)


def unreachable_reason(condition: WaitCondition, name: str, status: JobStatus) -> ElasticJobError | None:
    """The error to raise when it is not so, and can never be."""
    if not has_ended(status) or is_reached(condition, status):
        return None
    if status.phase is Phase.FAILED:
        return JobFailed(f"job {name} failed: {failure(status)}", status)
    return CannotHappen(f"job {name} has ended as {status.phase}, so it will never come to {condition}")


def failure(status: JobStatus) -> str:
    """Why it failed, in one sentence: what decided it, and the root cause."""
    failed = next((each for each in status.conditions if each.type == ConditionType.FAILED), None)
    decided = f"{failed.reason}: {failed.message}" if failed else (status.message or "no reason was given")
    last = status.last_failure
    if last is None:
        return decided
    cause = f"rank {last.rank} in pod {last.pod_name} ended with exit code {last.exit_code}"
    words = last.message.strip().splitlines()
    return f"{decided}; last failure: {cause}" + (f": {words[-1]}" if words else "")
