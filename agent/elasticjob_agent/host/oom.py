"""Whether the kernel killed for want of memory: the counters of this container's cgroup, version 2 or 1.

Only a counter that has grown is evidence; its value before the workers started is not theirs. Where no counter can be
read nothing is claimed. Kernels before 4.13 do not count kills (`memory.oom_control` without `oom_kill`): there
`memory.failcnt`, which counts every hit of the limit, has to do.
"""

import signal
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc/self/cgroup")
_KILLED_EXIT = 128 + signal.SIGKILL
_OOM_MESSAGE = "killed by signal: Killed"
"""What a data loader says of its worker process."""


class OomCounter:
    """The counter of one cgroup's folder; `has_grown` since the last `take_baseline`."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` holds the memory controller's files; None: there are none."""
        self._folder = folder
        self._baseline: int | None = None

    def take_baseline(self) -> None:
        """Workers start: what is counted from now on is theirs."""
        self._baseline = self.read()

    def has_grown(self) -> bool:
        """Somebody was killed since the mark."""
        now = self.read()
        return self._baseline is not None and now is not None and now > self._baseline

    def read(self) -> int | None:
        """Kills so far; None where nothing counts them."""
        if self._folder is None:
            return None
        for name in ("memory.events", "memory.oom_control"):
            if (kills := _line(self._folder / name, "oom_kill")) is not None:
                return kills
        return _number(_text(self._folder / "memory.failcnt"))


def may_be_oom(exit_code: int, message: str) -> bool:
    """It ended as those do whom the kernel kills, or whose child it killed."""
    return exit_code in {-signal.SIGKILL, _KILLED_EXIT} or _OOM_MESSAGE in message


def find_folder(cgroup: Path = _CGROUP, proc: Path = _PROC) -> Path | None:
    """The folder of this process's memory cgroup; in a container that is usually the root it sees."""
    paths = dict(_controllers(_text(proc)))
    candidates = []
    if "memory" in paths:  # version 1, or both at once
        candidates += [cgroup / "memory" / paths["memory"], cgroup / "memory"]
    if "" in paths:
        candidates += [cgroup / paths[""], cgroup]
    return next((folder for folder in candidates if OomCounter(folder).read() is not None), None)


def _controllers(text: str) -> list[tuple[str, str]]:
    """(controller, path) of each line `7:memory:/a/b`; version 2 is `0::/a/b`, controller empty."""
    lines = [line.split(":", 2) for line in text.splitlines()]
    parts = [line for line in lines if len(line) == 3]  # noqa: PLR2004 -- id, controllers, path
    return [(name, path.strip("/")) for _, names, path in parts for name in names.split(",")]


def _line(file: Path, name: str) -> int | None:
    for line in _text(file).splitlines():
        word, _, value = line.partition(" ")
        if word == name:
            return _number(value)
    return None


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
