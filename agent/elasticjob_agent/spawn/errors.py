"""Failures of a process started by this package, as exceptions of `join`.

    ProcessException                the fields of both kinds: message, index and pid
    ├── ProcessRaisedException      the function raised; the message contains the traceback of the child
    └── ProcessExitedException      the process ended by a signal or with a code other than 0

All have plain values only, so that each survives pickling and copying with every field. An exception of the child
travels as text and never as an object.
"""

import signal
from typing import Any, Self


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, pid: int | None = None, *, error_pid: int | None = None) -> None:
        """Take the pid once, by either name.

        Raises:
            TypeError: both names were given, or none.
        """
        if (pid is None) == (error_pid is None):
            raise TypeError("give exactly one of pid and error_pid; they are two names of the same value")
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        """The index of the process that failed first."""
        self.pid = self.error_pid = pid if pid is not None else error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function of a process raised; `msg` ends with the child's own traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process was killed by a signal, or exited with a code other than 0 without raising."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        """1 to 255, or minus the number of the signal."""
        self.signal_name = signal_name
        """The name of that signal, as `SIGABRT`; None if the process exited by itself."""

    @classmethod
    def of(cls, index: int, *, pid: int, exit_code: int) -> Self:
        """Return the exception for process `index`, which ended with this code, or minus the number of a signal."""
        if exit_code >= 0:
            return cls(f"process {index} terminated with exit code {exit_code}", index, pid, exit_code)
        name = _signal_name(-exit_code)
        return cls(f"process {index} terminated with signal {name}", index, pid, exit_code, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def raised(index: int, *, pid: int, traceback: str) -> ProcessRaisedException:
    """Return the exception for process `index`, whose function raised with this traceback."""
    headline = f"-- Process {index} terminated with the following error:"
    return ProcessRaisedException(f"\n\n{headline}\n{traceback.rstrip()}", index, pid)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between SIGRTMIN and SIGRTMAX have no names
        return f"<Unknown signal {number}>"
