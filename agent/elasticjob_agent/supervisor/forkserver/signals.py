"""Signals of the fork server: how it sends them, and what they do to itself."""

import signal
from collections.abc import Callable
from contextlib import suppress

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def send(function: "Callable[[int, int], None]", pid: int, signum: int) -> None:
    """Send a signal to a process that may have ended, or run as another user after a setuid exec."""
    # An error is ignored here: the wait shows whether the process remains.
    with suppress(ProcessLookupError, PermissionError):
        function(pid, signum)


def install_handlers() -> "list[int]":
    """Make signals wake the loop and do nothing else; return the signals that a worker must set to the default."""
    for signum in (signal.SIGCHLD, *_IGNORED):
        signal.signal(signum, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # inherited from the agent: a blocked SIGCHLD would never wake us
    settable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return [signum for signum in settable if signal.getsignal(signum) != signal.SIG_DFL]
