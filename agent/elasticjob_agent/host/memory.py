"""The memory that this container may still use, and the memory of single processes.

A container's limit is that of its cgroup, version 2 or 1. The memory of the machine counts if the cgroup has no limit,
or one that is greater.
"""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.host.cgroup import folders, read_line, read_number

_PROC = Path("/proc")
_KB = 1024
_HIGHEST_SCORE = 1000


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """The memory of one container, in bytes."""

    total: int
    """Its limit, or all memory of the machine if that is less."""
    left: int
    """Free memory, with the pages of files, which the kernel can drop."""


class MemoryMeter:
    """Reads the memory of one container."""

    def __init__(self, candidates: list[Path] | None = None, proc: Path = _PROC) -> None:
        """`candidates` are folders of the memory controller; None: those of this process."""
        found = folders("memory") if candidates is None else candidates
        self._folder = next((folder for folder in found if _usage(folder) is not None), None)
        self._machine = proc / "meminfo"

    def read(self) -> MemoryUsage | None:
        """Return the memory now; None if the machine does not show it."""
        total, available = read_line(self._machine, "MemTotal"), read_line(self._machine, "MemAvailable")
        if total is None or available is None:
            return None
        machine = MemoryUsage(total * _KB, available * _KB)
        limit = self._limit()
        if limit is None or self._folder is None:
            return machine
        used = max((_usage(self._folder) or 0) - _droppable(self._folder), 0)
        return MemoryUsage(min(limit, machine.total), max(min(limit - used, machine.left), 0))

    def _limit(self) -> int | None:
        if self._folder is None:
            return None
        # Above memory.high, the kernel slows the processes down until they are below it again.
        found = [read_number(self._folder / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
        return min((limit for limit in found if limit is not None), default=None)


def _usage(folder: Path) -> int | None:
    version_2 = read_number(folder / "memory.current")
    return version_2 if version_2 is not None else read_number(folder / "memory.usage_in_bytes")


def _droppable(folder: Path) -> int:
    """Return the pages of files; version 1 counts those of cgroups below this one only in its totals."""
    stat = folder / "memory.stat"
    pages = 0
    for name in ("inactive_file", "active_file"):
        total = read_line(stat, f"total_{name}")
        pages += (read_line(stat, name) or 0) if total is None else total
    return pages


def share_of_process(pid: int, proc: Path = _PROC) -> int:
    """Return the bytes of this process, each page divided by its number of users (PSS); 0 if it has ended.

    The kernel looks at every page for this: some milliseconds for a process that has imported torch.
    """
    return (read_line(proc / str(pid) / "smaps_rollup", "Pss") or 0) * _KB


def private_bytes(pid: int, page_bytes: int, proc: Path = _PROC) -> int:
    """Return the bytes of this process that belong to no file, 0 if it has ended; shared with its forks or not."""
    try:
        _, resident, of_files, *_ = map(int, (proc / str(pid) / "statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - of_files) * page_bytes


def is_first_to_go(pid: int, proc: Path = _PROC) -> bool:
    """Whether the kernel kills this process before all others when memory runs out."""
    return read_number(proc / str(pid) / "oom_score_adj") == _HIGHEST_SCORE
