"""Let the agent ask any worker for the stacks of its threads, without a line in the script.

The signal is SIGURG. The agent sends it only where it is known to be safe, but a worker may change between that check
and the signal. So the signal must be harmless everywhere: a program that does not catch SIGURG ignores it, unlike
SIGUSR1 or a real-time signal. One that catches it must expect it without a cause. Go interrupts its own threads by it,
for these reasons.
"""

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum, re and others
import os
import sys

NUMBER = _signal.SIGURG
_STDERR = 2
_progress = ""


class _DefaultHandler(int):
    """Takes the place of SIG_DFL among Python's handlers; it is deleted when the script sets a handler of its own.

    Faulthandler's handler is known to the kernel alone, so the script would replace it without a trace. With this,
    `signal.getsignal` still returns SIG_DFL, because the two are equal.
    """

    __slots__ = ()

    def __call__(self, *_: object) -> None:
        """Do nothing: Python's table only takes numbers that can be called, and faulthandler's handler runs."""

    def __del__(self) -> None:
        try:
            _send('{"stacks": {"pid": %d, "signal": %d, "taken": true}}\n' % (os.getpid(), NUMBER))
        except Exception:  # noqa: BLE001 - this also runs when the interpreter ends
            return


def register() -> None:
    """Make SIGURG write all stacks to stderr, and inform the agent; leave it alone if something else has it."""
    global _progress  # noqa: PLW0603 - __del__ has no other way to it
    _progress = os.environ.get("ELASTICJOB_PROGRESS", "")
    if sys.implementation.name != "cpython" or not _progress:
        return
    try:
        if _has_default_action():
            _set_handler()
            file = os.fstat(_STDERR)
            where = "[%d, %d]" % (file.st_dev, file.st_ino)
            _send('{"stacks": {"pid": %d, "signal": %d, "stderr": %s}}\n' % (os.getpid(), NUMBER, where))
    except (OSError, RuntimeError, ValueError):  # stderr is closed, or the agent is gone
        return


def _has_default_action() -> bool:
    """Whether nothing in this process catches or ignores the signal, also not a library in C."""
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in {"SigCgt", "SigIgn"} and int(value, 16) >> (NUMBER - 1) & 1:
                return False
    return True


def _set_handler() -> None:
    was_loaded = "faulthandler" in sys.modules
    import faulthandler

    if not was_loaded:  # a script that has not imported it does not find it
        del sys.modules["faulthandler"]
    faulthandler.register(NUMBER, file=_STDERR, all_threads=True)
    # This line replaces the action in the kernel. Registering again after it sets faulthandler's anew, and leaves the
    # default to be restored when the interpreter ends.
    _signal.signal(NUMBER, _DefaultHandler())
    faulthandler.unregister(NUMBER)
    faulthandler.register(NUMBER, file=_STDERR, all_threads=True)


def _send(line: str) -> None:
    fd = os.open(_progress, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
