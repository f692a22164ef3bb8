"""Waiting for a condition with a deadline: the only way a test may wait.

`eventually` polls a plain callable, `aeventually` the same from inside an event loop. Both return the
first truthy value, and on the deadline raise an AssertionError that shows the last value seen. A deadline is there for
what never comes: on a machine with more work than cores it is later by that factor.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.01


def slowness() -> float:
    """How many processes want each core, by the load of the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def scaled(seconds: float) -> float:
    """Return a deadline that is `seconds` on a quiet machine, and longer with its load."""
    return seconds * slowness()


def eventually(
    condition: Callable[[], T], *, within_s: float = 30.0, what: str = "condition", pause_s: float = _PAUSE_S
) -> T:
    """Call `condition` until it is truthy; return that value, or fail after `within_s` seconds of a quiet machine.

    A condition that costs much (a request, a process) is asked less often with a longer `pause_s`.
    """
    began = time.monotonic()
    while not (value := condition()):
        if time.monotonic() - began > within_s * slowness():
            raise AssertionError(f"{what} did not hold within {within_s} s; last seen: {value!r}")
        time.sleep(pause_s)
    return value


async def aeventually(
    condition: Callable[[], T] | Callable[[], Awaitable[T]], *, within_s: float = 30.0, what: str = "condition"
) -> T:
    """As `eventually`, without blocking the event loop; `condition` may be a coroutine function."""
    began = time.monotonic()
    while True:
        result = condition()
        value: T = await result if isinstance(result, Awaitable) else result
        if value:
            return value
        if time.monotonic() - began > within_s * slowness():
            raise AssertionError(f"{what} did not hold within {within_s} s; last seen: {value!r}")
        await asyncio.sleep(_PAUSE_S)
