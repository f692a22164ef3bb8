"""Leaks after a soak: anything left of a job, and resources of old processes beyond those of new ones."""

import contextlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from testing.waiting import eventually
from tests.soak.job_generator import JobBroken

MORE = {"descriptors": 10, "threads": 4, "rss_mib": 60}
"""The allowed excess of an old process over a new one: its caches are warm."""
_PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class Use:
    """The resources that a process holds."""

    descriptors: int
    threads: int
    rss_mib: int
    opened: str = field(default="", repr=False, compare=False)
    """The kinds of its descriptors, each with its number."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return the present use of a process."""
        process = psutil.Process(pid)
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss >> 20, _opened(pid))


def excess(name: str, old: Use, new: Use) -> list[str]:
    """Yield the resources of an old process beyond those of a new one and the allowed excess."""
    return [
        f"the {name} holds {getattr(old, what)} {what}, a new one {getattr(new, what)} (open: {old.opened})"
        for what, allowed in MORE.items()
        if getattr(old, what) > getattr(new, what) + allowed
    ]


def _opened(pid: int) -> str:
    kinds: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed in the meantime
            kinds[str(link.readlink()).partition(":[")[0]] += 1
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())


def require_none(what: str, left: Callable[[], object], *, within_s: float) -> None:
    """Raise JobBroken if something is still left after this time: deletions take a moment."""
    found: list[object] = []

    def none() -> bool:
        found[:] = [left()]
        return not found[0]

    try:
        eventually(none, within_s=within_s, what=f"no {what} left", pause_s=_PAUSE_S)
    except AssertionError:
        raise JobBroken(f"{what} left behind: {found[0]}") from None


def strays(folder: Path, spared: Collection[int]) -> list[str]:
    """Return the processes that use this folder, except the spared ones and their children."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words, environ = process.cmdline(), process.environ()
            ours = any(str(folder) in word for word in (*words, environ.get("ELASTICJOB_LOG_DIR", "")))
            if ours and not {process.pid, process.ppid()} & set(spared):
                found.append(f"{process.pid} {' '.join(words)[:120]}")
    return found
