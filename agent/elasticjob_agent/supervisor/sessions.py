"""Killing what is left of lost workers' sessions, when the starter that knew their trees is gone.

Only for sessions whose leader was alive a moment ago: their numbers cannot have passed to anyone else.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

import psutil

_PASSES = 10
"""A process that forks while we look may be missed by one pass; this must end, so it is bounded."""


def kill_sessions(sessions: Collection[int]) -> None:
    """SIGKILL every process of these sessions."""
    if not sessions:
        return
    for _ in range(_PASSES):
        members = [pid for pid in psutil.pids() if _in_session(pid, sessions)]
        if not members:
            return
        for pid in members:
            _kill(pid, sessions)


def _in_session(pid: int, sessions: Collection[int]) -> bool:
    try:
        return os.getsid(pid) in sessions
    except (ProcessLookupError, PermissionError):
        return False


def _kill(pid: int, sessions: Collection[int]) -> None:
    # Handle first, check second: the signal cannot reach one that has got the pid in between.
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if _in_session(pid, sessions):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
