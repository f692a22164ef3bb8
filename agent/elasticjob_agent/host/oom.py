"""Detection of out-of-memory kills by the counters of this container's cgroup, version 2 or 1.

Only a counter that has grown is evidence: its value from before the start of the workers is not caused by them. If no
counter can be read, no kill is reported. Kernels before 4.13 do not count kills (`memory.oom_control` without
`oom_kill`). There `memory.failcnt` is used, which counts each hit of the limit.
"""

import signal
from pathlib import Path

from elasticjob_agent.host.cgroup import CGROUP, OWN_CGROUPS, folders, read_line, read_number

_KILLED_EXIT = 128 + signal.SIGKILL
_OOM_MESSAGE = "killed by signal: Killed"
"""The part of a data loader's message by which it reports that its worker process was killed."""


class OomCounter:
    """The kill counter of one cgroup's folder; `has_grown` compares it with the last `take_baseline`."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` has the files of the memory controller; None: there are none."""
        self._folder = folder
        self._baseline: int | None = None

    def take_baseline(self) -> None:
        """Remember the counter's value at the start of workers; kills from now on are theirs."""
        self._baseline = self.read()

    def has_grown(self) -> bool:
        """Whether the kernel has killed a process since the baseline."""
        now = self.read()
        return self._baseline is not None and now is not None and now > self._baseline

    def attribute_kill(self) -> None:
        """Record that the kernel has killed a process that is no worker, and that no worker needs.

        Its kill is then no evidence. A process that ended by another SIGKILL was not counted, and changes nothing.
        """
        if self.has_grown() and self._baseline is not None:
            self._baseline += 1

    def read(self) -> int | None:
        """Return the number of kills so far; None if no file counts them."""
        if self._folder is None:
            return None
        for name in ("memory.events", "memory.oom_control"):
            if (kills := read_line(self._folder / name, "oom_kill")) is not None:
                return kills
        return read_number(self._folder / "memory.failcnt")


def may_be_oom(exit_code: int, message: str) -> bool:
    """Whether exit code or message are those of a process that the kernel killed, or whose child it killed."""
    return exit_code in {-signal.SIGKILL, _KILLED_EXIT} or _OOM_MESSAGE in message


def find_folder(cgroup: Path = CGROUP, proc: Path = OWN_CGROUPS) -> Path | None:
    """Return the folder of this process's memory cgroup; in a container usually the root of what is mounted there."""
    found = folders("memory", cgroup, proc)
    return next((folder for folder in found if OomCounter(folder).read() is not None), None)
