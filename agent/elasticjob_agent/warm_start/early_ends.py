"""Count the warm starts in a row that ended early: after two, the workers of this agent start cold.

A start ends early if one of its workers crashes, or fails within a few seconds and before any progress. A signal that
others send, such as SIGKILL or SIGTERM, is no sign against the warm start.
"""

import signal
from dataclasses import dataclass

MAX_EARLY_ENDS = 2
EARLY_S = 3.0
"""A worker that was forked with its imports done trains within a second."""
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """The first failure of one start of a node's workers."""

    code: int
    """As `Exit.code`: minus the number of the signal, or the exit code."""
    lived_s: float
    has_progress: bool
    """Whether any worker of the start has reported progress."""


class EarlyEnds:
    """Counts early ends of one agent's starts."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._is_warm = False
        self._has_failed = False

    def start(self, *, is_warm: bool) -> None:
        """Record that workers have started."""
        self._is_warm, self._has_failed = is_warm, False

    def record(self, end: WorkerEnd) -> None:
        """Record that a worker has failed by itself. Only the first failure of a start counts: others may follow it."""
        if self._is_warm and not self._has_failed:
            self._in_a_row = self._in_a_row + 1 if is_early(end) else 0
        self._has_failed = True

    @property
    def are_too_many(self) -> bool:
        """Whether the workers are to start cold from now on."""
        return self._in_a_row >= MAX_EARLY_ENDS


def is_early(end: WorkerEnd) -> bool:
    """Whether this end may be a fault of the warm start."""
    if end.code < 0:
        return -end.code in _CRASHES
    return end.lived_s < EARLY_S and not end.has_progress
