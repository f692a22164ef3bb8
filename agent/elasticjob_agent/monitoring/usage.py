"""Cpu and memory of workers with all processes of their sessions, from one pass over the machine's processes.

A worker leads a session of its own, so its data loaders and helpers count for it. Only a process that begins a new
session leaves it.

Cpu is the mean since the sample before; the first is the mean since the worker was started. The mean is never over less
than `MIN_INTERVAL_S`, because the kernel counts in hundredths of a second. There is at most one pass in that time,
however often `measure` is called, so a restart of all workers costs none.

Only processes of the workers are read: a machine has thousands of others. This is most of an agent's work in a quiet
minute.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.supervisor import sessions

MIN_INTERVAL_S = 5.0
"""Seconds over which cpu is a mean, at least."""
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_UTIME, _CSTIME, _RSS = 11, 14, 21
"""Fields of /proc/PID/stat, counted from the state, the first field after the command's closing parenthesis."""


Members = Callable[[Collection[int]], Mapping[int, int]]
"""A function that returns pid → session, for all processes of the given sessions."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one worker. Memory is the resident memory; a shared page counts for each process that has it."""

    cpu_percent: float | None
    """100 is one core; None until the worker was measured for long enough."""
    memory_bytes: int


@dataclass(slots=True)
class _Sample:
    """The last cpu sample of one session."""

    at_s: float
    ticks: int
    percent: float | None = None


class UsageMeter:
    """Measures the workers of one node."""

    def __init__(self, clock: Callable[[], float], members: Members = sessions.members, proc: Path = _PROC) -> None:
        """`clock` is monotonic seconds."""
        self._clock = clock
        self._members = members
        self._proc = proc
        self._samples: dict[int, _Sample] = {}
        self._found: dict[int, Usage] = {}
        self._sampled_at_s = float("-inf")

    def measure(self, leaders: Collection[int]) -> Mapping[int, Usage]:
        """Return pid → usage of the workers, which lead their sessions; a new or just ended worker is missing."""
        now_s = self._clock()
        for leader in leaders:
            self._samples.setdefault(leader, _Sample(now_s, 0))
        if now_s - self._sampled_at_s >= MIN_INTERVAL_S:
            self._sampled_at_s = now_s
            self._sample_all(frozenset(leaders), now_s)
        return self._found

    def _sample_all(self, leaders: frozenset[int], now_s: float) -> None:
        ticks: dict[int, int] = {}
        pages: dict[int, int] = {}
        for pid, session in self._members(leaders).items():
            try:
                spent, resident = self._cpu_ticks(pid)
            except OSError:  # the process has ended, or is hidden from this user
                continue
            ticks[session] = ticks.get(session, 0) + spent
            pages[session] = pages.get(session, 0) + resident
        self._samples = {leader: self._sample(leader, ticks.get(leader, 0), now_s) for leader in leaders}
        self._found = {leader: Usage(self._samples[leader].percent, count * _PAGE) for leader, count in pages.items()}

    def _sample(self, leader: int, ticks: int, now_s: float) -> _Sample:
        """Return a new cpu sample if enough time has passed, else the one before."""
        before = self._samples[leader]
        if now_s - before.at_s < MIN_INTERVAL_S:
            return before
        # The ticks of a process that its parent does not wait for are lost, so the sum may fall: usage is at least 0.
        spent_s = max(0, ticks - before.ticks) / _TICKS
        return _Sample(now_s, ticks, round(100 * spent_s / (now_s - before.at_s), 1))

    def _cpu_ticks(self, pid: int) -> tuple[int, int]:
        """Return the ticks of a process, with those of children that it has waited for, and its resident pages."""
        text = (self._proc / str(pid) / "stat").read_bytes()
        fields = text[text.rindex(b")") + 2 :].split()
        return sum(int(ticks) for ticks in fields[_UTIME : _CSTIME + 1]), int(fields[_RSS])
