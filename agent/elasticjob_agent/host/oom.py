"""Detection of out-of-memory kills by the counters of this container's cgroup, version 2 or 1.

Only a counter that has grown is evidence: its value from before the start of the workers is not caused by them. If no
counter can be read, no kill is reported. Kernels before 4.13 do not count kills (`memory.oom_control` without
`oom_kill`). There `memory.failcnt` is used, which counts each hit of the limit.
"""

import signal
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc/self/cgroup")
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

    def read(self) -> int | None:
        """Return the number of kills so far; None if no file counts them."""
        if self._folder is None:
            return None
        for name in ("memory.events", "memory.oom_control"):
            if (kills := _line(self._folder / name, "oom_kill")) is not None:
                return kills
        return _number(_text(self._folder / "memory.failcnt"))


def may_be_oom(exit_code: int, message: str) -> bool:
    """Whether exit code or message are those of a process that the kernel killed, or whose child it killed."""
    return exit_code in {-signal.SIGKILL, _KILLED_EXIT} or _OOM_MESSAGE in message


def find_folder(cgroup: Path = _CGROUP, proc: Path = _PROC) -> Path | None:
    """Return the folder of this process's memory cgroup; in a container usually the root of what is mounted there."""
    paths = dict(_controllers(_text(proc)))
    candidates = []
    if "memory" in paths:  # version 1, or both at once
        candidates += [cgroup / "memory" / paths["memory"], cgroup / "memory"]
    if "" in paths:
        candidates += [cgroup / paths[""], cgroup]
    return next((folder for folder in candidates if OomCounter(folder).read() is not None), None)


def _controllers(text: str) -> list[tuple[str, str]]:
    """Return (controller, path) for each line `7:memory:/a/b`; version 2 is `0::/a/b`, with an empty controller."""
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
