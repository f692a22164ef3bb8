"""How much time a process has had to answer: the time in which it waited for a processor does not count.

A process that waits for a processor is late because the machine is busy. One that sleeps, is stopped or runs, and does
not answer, hangs. The kernel counts both for each process (schedstat, proc_pid_stat(5)).
"""

import time
from dataclasses import dataclass
from pathlib import Path

MAX_SLOWNESS = 10.0
"""Times of its limit after which a process has had enough time, even if it has always waited for a processor."""
_RUNNABLE, _DISK = "R", "D"


@dataclass(frozen=True, slots=True)
class SchedulerSample:
    """The counts of the kernel for a process at one moment."""

    at_s: float
    state: str = ""
    """The letter of its state; empty if it is not known."""
    run_s: float = 0.0
    """Seconds that it has run."""
    waited_s: float = 0.0
    """Seconds that it has waited for a processor, without a wait that goes on."""


class AnswerMeter:
    """Measures the time that one process has had for an answer."""

    def __init__(self, begin: SchedulerSample, *, within_s: float) -> None:
        """`begin` is the sample of the question; the process hangs if it has had `within_s` without an answer."""
        self._begin = self._last = begin
        self._within_s = within_s
        self._had_s = 0.0

    def left_s(self, now: SchedulerSample) -> float:
        """Return the seconds that the process still has; 0 or less if there is no reason to wait any longer."""
        self._had_s += _had_s(self._last, now)
        self._last = now
        longest_s = self._within_s * MAX_SLOWNESS - (now.at_s - self._begin.at_s)
        return min(self._within_s - self._had_s, longest_s)

    @property
    def is_busy(self) -> bool:
        """Whether a processor or a disk was the reason for a late answer."""
        return self._had_s < self._within_s or self._last.state == _DISK


def read_sample(pid: int) -> SchedulerSample:
    """Return the sample of this process; one without counts if it has ended, or the kernel does not count."""
    now_s, folder = time.monotonic(), Path(f"/proc/{pid}")
    try:
        run_ns, waited_ns, _ = (folder / "schedstat").read_text().split()
        # The name in parentheses may contain any character.
        state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return SchedulerSample(now_s)
    return SchedulerSample(now_s, state, int(run_ns) / 1e9, int(waited_ns) / 1e9)


def _had_s(before: SchedulerSample, now: SchedulerSample) -> float:
    """Return for how long the process has run, slept or been stopped between two samples."""
    ran_s = now.run_s - before.run_s
    # The wait of a runnable process may go on, and would not be counted yet.
    if now.state == _RUNNABLE:
        return ran_s
    return max(now.at_s - before.at_s - (now.waited_s - before.waited_s), ran_s)
