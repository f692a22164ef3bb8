"""Who is in which session; and killing what is left of lost workers' sessions, when the starter is gone.

The starter knew their trees. Only for sessions whose leader was alive a moment ago: their numbers cannot have passed
to anyone else.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

_PASSES = 10
"""A process that forks while we look may be missed by one pass; this must end, so it is bounded."""


def kill_sessions(sessions: Collection[int]) -> None:
    """SIGKILL every process of these sessions."""
    if not sessions:
        return
    for _ in range(_PASSES):
        found = members(sessions)
        if not found:
            return
        for pid in found:
            _kill(pid, sessions)


def members(sessions: Collection[int]) -> dict[int, int]:
    """Session by pid, of all processes in these sessions: a microsecond for each that the machine has."""
    pids = map(int, filter(str.isdecimal, os.listdir("/proc")))  # noqa: PTH208 - a Path each would take far longer
    return {pid: session for pid in pids if (session := _session(pid)) in sessions}


def _session(pid: int) -> int:
    """Its session; 0, which is nobody's, if it has ended or may not be asked."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return 0


def _kill(pid: int, sessions: Collection[int]) -> None:
    # Handle first, check second: the signal cannot reach one that has got the pid in between.
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if _session(pid) in sessions:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
