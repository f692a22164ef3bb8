"""Waiting for a condition with a deadline: the only wait that a test may use.

`eventually` polls a plain callable, `aeventually` the same from inside an event loop. Both return the
first truthy value. On the deadline they raise an AssertionError that shows the last value. A deadline is only for
failures: on a machine with more runnable processes than cores it is later by that factor.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.01


def slowness() -> float:
    """Return the number of processes that compete for each core, by the load of the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def scaled(seconds: float) -> float:
    """Return a deadline that is `seconds` on a quiet machine, and longer with its load."""
    return seconds * slowness()


def eventually(
    condition: Callable[[], T], *, within_s: float = 30.0, what: str = "condition", pause_s: float = _PAUSE_S
) -> T:
    """Call `condition` until it is truthy; return that value, or fail after `within_s` seconds of a quiet machine.

    For a condition that costs much (a request, a process), use a longer `pause_s`.
    """
    began = time.monotonic()
    while not (value := condition()):
        if time.monotonic() - began > within_s * slowness():
            raise AssertionError(f"{what} did not hold within {within_s} s; last value: {value!r}")
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
            raise AssertionError(f"{what} did not hold within {within_s} s; last value: {value!r}")
        await asyncio.sleep(_PAUSE_S)
