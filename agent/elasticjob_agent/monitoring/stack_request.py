"""Whether a registered process may get the signal on which it writes its stacks, as /proc shows it now.

A worker may have changed since it registered: it may run another program, or write elsewhere.
"""

import signal
from pathlib import Path

from elasticjob_agent.workers.stack_signals import StackSignal

_PROC = Path("/proc")
_STDERR = "2"


def refuse_request(pid: int, registered: StackSignal) -> str:
    """Return the reason against sending the signal to this process, or an empty text."""
    folder, name = _PROC / str(pid), signal.Signals(registered.number).name
    try:
        caught = _caught_signals(folder)
    except (OSError, ValueError):
        return "it has ended"
    # An exec resets all handlers, and the new program would end by SIGUSR1. A program that catches SIGURG passes this
    # check. It is not harmed: such a handler must expect the signal without a cause.
    if not caught >> (registered.number - 1) & 1:
        return f"it no longer catches {name}; a process that starts another program does not"
    # Faulthandler writes to descriptor 2, whatever that is by now. It may be a file with data of the user.
    if registered.stderr is not None and _stderr_of(folder) != registered.stderr:
        return "it has closed or redirected its stderr, or runs as another user; its script can register by itself"
    return ""


def _caught_signals(folder: Path) -> int:
    for line in (folder / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "SigCgt":
            return int(value, 16)
    return 0


def _stderr_of(folder: Path) -> tuple[int, int] | None:
    try:
        file = (folder / "fd" / _STDERR).stat()
    except OSError:  # it is closed, or the process belongs to another user
        return None
    return file.st_dev, file.st_ino
