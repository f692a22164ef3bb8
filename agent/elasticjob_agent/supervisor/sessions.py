"""Processes of sessions, and the kill of what remains in the sessions of lost workers after the fork server's end.

Only the fork server knew the workers' trees. The functions are for sessions whose leader was alive a moment ago, so
that their numbers cannot have been reused.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

_PASSES = 10
"""One pass may miss a process that forks during it. The number is limited, so that the passes end."""


def kill_sessions(sessions: Collection[int]) -> None:
    """Send SIGKILL to every process of these sessions."""
    if not sessions:
        return
    for _ in range(_PASSES):
        found = members(sessions)
        if not found:
            return
        for pid in found:
            _kill(pid, sessions)


def members(sessions: Collection[int]) -> dict[int, int]:
    """Return the session of each process in these sessions, by pid; takes a microsecond per process of the machine."""
    pids = map(int, filter(str.isdecimal, os.listdir("/proc")))  # noqa: PTH208 - a Path for each would take far longer
    return {pid: session for pid in pids if (session := _session(pid)) in sessions}


def _session(pid: int) -> int:
    """Return the session of a process, or 0, which is no session, if it has ended or may not be read."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return 0


def _kill(pid: int, sessions: Collection[int]) -> None:
    # Open the handle first and check second: the signal cannot reach a process that has got the pid in between.
    with suppress(ProcessLookupError, PermissionError):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError:  # an old kernel or a sandbox has none, or no descriptor is left
            if _session(pid) in sessions:
                os.kill(pid, signal.SIGKILL)
            return
        try:
            if _session(pid) in sessions:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
