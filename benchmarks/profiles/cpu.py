"""Processor time of processes by the scheduler's own count, in nanoseconds: `ps` and psutil know ticks of 10 ms."""

import time
from collections.abc import Iterable

_SCHEDULED = 2
"""Of a process's clocks the one that runs while any of its threads does."""


def used_s(pids: Iterable[int]) -> float:
    """Seconds that all threads of these processes have run, those that have ended too (clock_getcpuclockid(3))."""
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in pids)
