"""Processor time of processes by the scheduler's own count, in nanoseconds: `ps` and psutil know ticks of 10 ms."""

import time
from collections.abc import Iterable

_SCHEDULED = 2
"""The one of a process's clocks that runs while any of its threads does."""


def used_s(pids: Iterable[int]) -> float:
    """Return the seconds that all threads of these processes have run, with ended ones (clock_getcpuclockid(3))."""
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in pids)
