"""Time limits for the processes beside a failed one."""

from dataclasses import dataclass

_TERMINATE_S = 30.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Two limits in seconds, each shared by all processes."""

    wait_s: float
    """Seconds to end by themselves, before any signal."""
    terminate_s: float
    """Seconds from SIGTERM until SIGKILL."""


def timeouts(grace_period: float | None) -> Timeouts:
    """Return the limits for this `grace_period` of a join; None: no wait, and half a minute after SIGTERM."""
    if grace_period is None:
        return Timeouts(wait_s=0.0, terminate_s=_TERMINATE_S)
    grace_s = max(0.0, grace_period)
    return Timeouts(wait_s=grace_s, terminate_s=grace_s)
