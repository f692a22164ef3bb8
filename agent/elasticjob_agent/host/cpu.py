"""The time of the processors that this container may use: idle time, the cgroup's quota, and one process."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.host.cgroup import folders, read_line, read_number, read_text

_PROC = Path("/proc")
_SCHEDULED = 2
"""The one of a process's clocks that runs while any of its threads does; see clock_getcpuclockid(3)."""


@dataclass(frozen=True, slots=True)
class CpuSample:
    """Counts at one moment; two of them show what happened in between."""

    at_s: float
    idle_s: Mapping[int, float]
    """Processor → the seconds in which no process of the machine needed it."""
    process_s: float
    """Seconds that the process has run."""
    last_cpu: int
    """The processor on which it ran last."""
    quota: float | None
    """Processors that the cgroup may use at a time; None: all."""
    used_s: float
    """Seconds that the processes of the cgroup have run."""
    throttled: int
    """Periods in which the cgroup had used up its quota."""


class CpuMeter:
    """Reads the time of the processors for one process."""

    def __init__(self, pid: int, *, candidates: list[Path] | None = None, proc: Path = _PROC) -> None:
        """`candidates` are folders of the cpu controller; None: those of this process."""
        self._pid = pid
        self._proc = proc
        found = folders("cpu") if candidates is None else candidates
        self._folder = next((folder for folder in found if _quota(folder) is not None), None)
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self) -> CpuSample:
        """Return the counts of now.

        Raises:
            ProcessLookupError, FileNotFoundError: the process has ended.
        """
        cpus = os.sched_getaffinity(self._pid)
        return CpuSample(
            at_s=time.monotonic(),
            idle_s={cpu: idle_s for cpu, idle_s in self._idle_s().items() if cpu in cpus},
            process_s=self._process_s(),
            last_cpu=self._last_cpu(),
            quota=None if self._folder is None else _quota(self._folder),
            used_s=0.0 if self._folder is None else _used_s(self._folder),
            throttled=0 if self._folder is None else read_line(self._folder / "cpu.stat", "nr_throttled") or 0,
        )

    def _idle_s(self) -> dict[int, float]:
        idle_s = {}
        for line in read_text(self._proc / "stat").splitlines():
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and len(counts) > 4:  # noqa: PLR2004 -- see proc_stat(5)
                idle_s[int(name[3:])] = (int(counts[3]) + int(counts[4])) * self._tick_s
        return idle_s

    def _process_s(self) -> float:
        try:
            return time.clock_gettime(~self._pid << 3 | _SCHEDULED)
        except OSError as error:  # EINVAL
            raise ProcessLookupError(self._pid) from error

    def _last_cpu(self) -> int:
        # The name in parentheses may contain any character, so count the fields behind it.
        fields = (self._proc / str(self._pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[36])


def _quota(folder: Path) -> float | None:
    """Return the quota in processors; None if there is none."""
    quota, _, period = read_text(folder / "cpu.max").partition(" ")
    if not quota:  # version 1, where -1 is no quota
        quota, period = read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")
    if not quota.strip().isdecimal() or not period.strip().isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _used_s(folder: Path) -> float:
    """Return the seconds of the cgroup; version 1 has them in another controller, which may be mounted elsewhere."""
    if (microseconds := read_line(folder / "cpu.stat", "usage_usec")) is not None:
        return microseconds / 10**6
    nanoseconds = read_number(folder / "cpuacct.usage")
    return (nanoseconds or 0) / 10**9
