"""SIGINT and SIGTERM of the launching process, converted to a descriptor that can be waited for.

The handlers only record the number and make a descriptor readable. So they can run between any two lines and change
nothing there. Python runs handlers in the main thread alone: a launch on another thread has none.
"""

import os
import signal
import threading
import warnings
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from elasticjob_agent.supervisor import fd_registry

_HANDLED = (signal.SIGINT, signal.SIGTERM)


class SignalWaiter:
    """A context manager that records the signals while it is entered, and then restores the previous handlers."""

    def __init__(self, *, stacklevel: int) -> None:
        """Take `stacklevel`, the place that a warning refers to, counted from this call."""
        self._stacklevel = stacklevel
        self._previous: dict[signal.Signals, Any] = {}
        self._count = self._drained = 0
        self.first: int | None = None
        """The number of the first signal."""
        self.descriptor = fd_registry.register(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        """Readable once a signal has come after the last `drain`."""

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            warnings.warn(
                "launch is not called in the main thread: SIGINT and SIGTERM will not end its workers",
                stacklevel=self._stacklevel,
            )
            return self
        for each in _HANDLED:
            self._previous[each] = signal.signal(each, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each, handler in self._previous.items():
            # None: Python did not set this handler, and cannot set it again.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        fd_registry.close(self.descriptor)

    def drain(self) -> int:
        """Return the number of signals since the last call; the descriptor is no longer readable."""
        # A handler may run between any two of these lines. The descriptor is read before the count, and the count only
        # grows. So a signal is counted now, or makes the descriptor readable again.
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        count = self._count
        added, self._drained = count - self._drained, count
        return added

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.first is None:
            self.first = number
        self._count += 1
        os.eventfd_write(self.descriptor, 1)
