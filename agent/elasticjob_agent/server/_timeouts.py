"""Time limits of an agent: given explicitly, by the environment, or by default. All in seconds."""

import logging
import os

EXIT_BARRIER_S = 300.0
SHUTDOWN_S = 30

log = logging.getLogger(__name__)


def exit_barrier_timeout(given: float | None) -> float:
    """How long a finished node waits for the others; raises ValueError for a negative one."""
    return _limit("exit_barrier_timeout", given, "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", EXIT_BARRIER_S)


def shutdown_timeout(given: float | None) -> float:
    """How long workers may take to stop; raises ValueError for a negative one."""
    return _limit("shutdown_timeout", given, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN_S)


def uninterruptible_timeout(given: float | None) -> float | None:
    """How long a worker may hang in the kernel; None: for ever."""
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
    """A number of seconds; None if it is not set, or not a number, which is said."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        log.warning("%s is %r, which is not a number of seconds; going on without it", variable, text)
        return None
    return int(value) if value.is_integer() else value
