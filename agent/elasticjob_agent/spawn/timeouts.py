"""How long the processes beside a failed one are given: pure."""

from dataclasses import dataclass

_TERMINATE_S = 30.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Both in seconds, each shared by all processes."""

    wait_s: float
    """For ending by themselves, before any signal."""
    terminate_s: float
    """From SIGTERM until SIGKILL."""


def timeouts(grace_period: float | None) -> Timeouts:
    """The bounds for this `grace_period` of a join; None: no wait, and half a minute after SIGTERM."""
    if grace_period is None:
        return Timeouts(wait_s=0.0, terminate_s=_TERMINATE_S)
    grace_s = max(0.0, grace_period)
    return Timeouts(wait_s=grace_s, terminate_s=grace_s)
