"""The two clocks of the operator, as one argument.

Wall clock is for what is compared with timestamps of the API server or shown to people: deadlines, TTLs, certificates,
times in a status. Everything that the operator measures itself (pacing, back-off, how long an agent is missing) uses
the monotonic clock: a wall clock that is set back or forward must not move it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Each returns seconds when it is called."""

    wall: Callable[[], float] = time.time
    """Since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    """Since an arbitrary moment; never set."""
