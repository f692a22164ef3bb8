"""Time limits of an agent, in seconds: from an argument, the environment, or a default."""

import logging
import os

EXIT_BARRIER_S = 300.0
SHUTDOWN_S = 30

log = logging.getLogger(__name__)


def exit_barrier_timeout(given: float | None) -> float:
    """Return how long a finished node waits for the others; raise ValueError for a negative value."""
    return _limit("exit_barrier_timeout", given, "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", EXIT_BARRIER_S)


def shutdown_timeout(given: float | None) -> float:
    """Return how long workers may take to stop; raise ValueError for a negative value."""
    return _limit("shutdown_timeout", given, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN_S)


def uninterruptible_timeout(given: float | None) -> float | None:
    """Return how long a worker may hang in the kernel; None for no limit."""
    return given if given is not None else from_environment("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT")


def _limit(name: str, given: float | None, variable: str, default: float) -> float:
    value = given
    if value is None:
        value = from_environment(variable)
    if value is None:
        value = default
    if value < 0:
        raise ValueError(f"{name} is {value} s; it must be 0 or more")
    return value


def from_environment(variable: str) -> float | None:
    """Return a number of seconds; None if the variable is not set, or is not a number, which is logged."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        log.warning("%s is %r, which is not a number of seconds; it is ignored", variable, text)
        return None
    return int(value) if value.is_integer() else value
