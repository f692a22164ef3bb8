"""The two clocks of the operator, as one argument.

The wall clock is for deadlines, TTLs, certificates and times in a status. They are compared with timestamps of the API
server or shown to users. Durations that the operator measures itself (intervals, back-off, time without an agent) use
the monotonic clock. A change of the wall clock must not affect them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Functions that return the current time in seconds."""

    wall: Callable[[], float] = time.time
    """Return seconds since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    """Return seconds since an arbitrary moment, independent of changes to the wall clock."""
