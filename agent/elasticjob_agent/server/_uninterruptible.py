"""Detection of workers that hang in the kernel (D state): no signal ends them, so a restart could never be clean.

The kernel does not report when a process begins to hang. So processes are checked at intervals, and only if a limit is
set.
"""

from collections.abc import Callable, Iterable

import psutil


def is_uninterruptible(pid: int) -> bool:
    """Return whether this process is in uninterruptible sleep at this moment."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_DISK_SLEEP)
    except psutil.Error:  # it has ended
        return False


class UninterruptibleMonitor:
    """The times since which processes hang without a break."""

    def __init__(
        self, limit_s: float, *, clock: Callable[[], float], is_uninterruptible: Callable[[int], bool]
    ) -> None:
        """Take `limit_s`, the seconds for which a process may hang."""
        self.limit_s = limit_s
        self._clock = clock
        self._is_uninterruptible = is_uninterruptible
        self._since_s: dict[int, float] = {}

    def stuck(self, pids: Iterable[int]) -> list[int]:
        """Check these processes and return those that have hung for longer than the limit."""
        now_s = self._clock()
        self._since_s = {pid: self._since_s.get(pid, now_s) for pid in pids if self._is_uninterruptible(pid)}
        return [pid for pid, since_s in self._since_s.items() if now_s - since_s >= self.limit_s]
