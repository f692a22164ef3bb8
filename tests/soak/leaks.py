"""What must not be there when the soak is over: anything of a job, and more in old processes than in new ones."""

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
"""So much more than a new process may an old one hold: its caches are warm."""
_PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class Use:
    """What a process holds of the machine."""

    descriptors: int
    threads: int
    rss_mib: int
    opened: str = field(default="", repr=False, compare=False)
    """What its descriptors are, each kind with its number."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """As it is now."""
        process = psutil.Process(pid)
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss >> 20, _opened(pid))


def excess(name: str, old: Use, new: Use) -> list[str]:
    """What a process that was there all the time holds above what a new one does, and above what is allowed."""
    return [
        f"the {name} holds {getattr(old, what)} {what}, a new one {getattr(new, what)} (open: {old.opened})"
        for what, allowed in MORE.items()
        if getattr(old, what) > getattr(new, what) + allowed
    ]


def _opened(pid: int) -> str:
    kinds: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            kinds[str(link.readlink()).partition(":[")[0]] += 1
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())


def require_none(what: str, left: Callable[[], object], *, within_s: float) -> None:
    """Broken if something is left for so long: deletions take a moment."""
    found: list[object] = []

    def none() -> bool:
        found[:] = [left()]
        return not found[0]

    try:
        eventually(none, within_s=within_s, what=f"no {what} left", pause_s=_PAUSE_S)
    except AssertionError:
        raise JobBroken(f"{what} left behind: {found[0]}") from None


def strays(folder: Path, spared: Collection[int]) -> list[str]:
    """Processes that live on this folder, wherever they have gone, but for the spared ones and their children."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words, environ = process.cmdline(), process.environ()
            ours = any(str(folder) in word for word in (*words, environ.get("ELASTICJOB_LOG_DIR", "")))
            if ours and not {process.pid, process.ppid()} & set(spared):
                found.append(f"{process.pid} {' '.join(words)[:120]}")
    return found
