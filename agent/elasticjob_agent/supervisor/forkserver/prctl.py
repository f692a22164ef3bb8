"""A few Linux calls of the fork server for which Python has no function.

libc is loaded at import, in the fork server: everything that allocates or loads must happen before the fork.
"""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PTRACE_DETACH = 17
_libc = ctypes.CDLL(None, use_errno=True)


def signal_on_parent_death(signum: int) -> None:
    """Make the kernel send this process a signal when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signum)


def become_subreaper() -> None:
    """Make every orphan below this process its child."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def end_trace(pid: int, signum: int) -> None:
    """Let a child go on that has asked to be traced by us and that this signal has stopped; it gets the signal."""
    # An exec stops a traced process by a signal of its own.
    delivered = 0 if signum == signal.SIGTRAP else signum
    _libc.ptrace(_PTRACE_DETACH, ctypes.c_int(pid), ctypes.c_void_p(), ctypes.c_void_p(delivered))
