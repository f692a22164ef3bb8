"""Failures of a launch.

    multiprocessing.ProcessError
    ├── WorkerError         a worker ended with a code other than 0, or by a signal
    └── MainProcessError    the launching process itself got SIGINT or SIGTERM

Both are raised only when no process of the launch is left. Their fields are keyword-only, and survive pickling.
"""

import functools
import signal
from multiprocessing import ProcessError
from typing import Any


class WorkerError(ProcessError):
    """A worker failed: the one that ended first."""

    def __init__(self, *, msg: str, exitcode: int, worker_id: int) -> None:
        super().__init__(msg)
        self._exitcode = exitcode
        self._worker_id = worker_id

    @property
    def exitcode(self) -> int:
        """Return the exit code of the worker, 1 to 255, or minus the number of the signal that killed it."""
        return self._exitcode

    @property
    def worker_id(self) -> int:
        """Return its local rank."""
        return self._worker_id

    def __str__(self) -> str:
        return f"worker[{self.worker_id}] failed with exitcode={self.exitcode}"

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {"msg": self.args[0], "exitcode": self.exitcode, "worker_id": self.worker_id}
        return functools.partial(type(self), **fields), ()


class MainProcessError(ProcessError):
    """The launching process got a signal that asks it to end; its workers have ended."""

    def __init__(self, *, signal_no: int) -> None:
        self._signal_no = int(signal_no)
        super().__init__(f"{_name(self._signal_no)} received, exiting due to {_describe(self._signal_no)}.")

    @property
    def signal_no(self) -> int:
        """Return the number of the first such signal."""
        return self._signal_no

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), signal_no=self.signal_no), ()


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between the first and the last have no names of their own
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else f"signal {number}"


def _describe(number: int) -> str:
    try:
        return signal.strsignal(number) or f"signal {number}"
    except ValueError:
        return f"signal {number}"
