"""Cpu and memory of workers with all the processes of their sessions, from one pass over the machine for all of them.

A worker leads a session of its own, so its data loaders and helpers count for it; only what has made itself a session
leaves it. Cpu is the mean since the sample before, the first one since the worker was started, and never over less
than `MIN_INTERVAL_S`: the kernel counts in hundredths of a second. Never more than one pass in that time either,
however often it is asked: a restart of all workers costs none. Only what is the workers' is read: a machine has
thousands of others, and this is most of what an agent does in a quiet minute.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.supervisor import sessions

MIN_INTERVAL_S = 5.0
"""Seconds: the least that a share of cpu is a mean over."""
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_UTIME, _CSTIME, _RSS = 11, 14, 21
"""Fields of /proc/PID/stat, counted from the state, which is the first behind the command's closing parenthesis."""


Members = Callable[[Collection[int]], Mapping[int, int]]
"""Session by pid, of all processes in the sessions that are asked for."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one worker; 100 is one core. Memory is what is resident, shared pages counted with each who has them."""

    cpu_percent: float | None
    """None until it was seen for long enough."""
    memory_bytes: int


@dataclass(slots=True)
class _Sample:
    """Of one session when its cpu was last taken."""

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
        """By the pid of the worker, which is its session's; one that is new or has just ended is missing."""
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
            except OSError:  # it has ended, or is hidden from us
                continue
            ticks[session] = ticks.get(session, 0) + spent
            pages[session] = pages.get(session, 0) + resident
        self._samples = {leader: self._sample(leader, ticks.get(leader, 0), now_s) for leader in leaders}
        self._found = {leader: Usage(self._samples[leader].percent, count * _PAGE) for leader, count in pages.items()}

    def _sample(self, leader: int, ticks: int, now_s: float) -> _Sample:
        """Its cpu, anew if enough time has passed."""
        before = self._samples[leader]
        if now_s - before.at_s < MIN_INTERVAL_S:
            return before
        # A process that nobody waits for takes its ticks with it: less than nothing was not used.
        spent_s = max(0, ticks - before.ticks) / _TICKS
        return _Sample(now_s, ticks, round(100 * spent_s / (now_s - before.at_s), 1))

    def _cpu_ticks(self, pid: int) -> tuple[int, int]:
        """Ticks, those of children that it has waited for too, and resident pages."""
        text = (self._proc / str(pid) / "stat").read_bytes()
        fields = text[text.rindex(b")") + 2 :].split()
        return sum(int(ticks) for ticks in fields[_UTIME : _CSTIME + 1]), int(fields[_RSS])
