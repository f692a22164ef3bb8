"""SIGINT and SIGTERM of the launching process, turned into something that can be waited for.

The handlers only note the number and make a descriptor readable, so they can strike between any two lines and change
nothing there. Python runs handlers in the main thread alone: a launch on another thread goes without.
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
    """While it is entered, the signals are noted; on leaving, whoever handled them before does so again."""

    def __init__(self, *, stacklevel: int) -> None:
        """`stacklevel` is where a warning points to, as seen from here."""
        self._stacklevel = stacklevel
        self._previous: dict[signal.Signals, Any] = {}
        self._count = self._drained = 0
        self.first: int | None = None
        """The number of the first signal."""
        self.descriptor = fd_registry.register(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        """Readable once a signal has come that `taken` was not told of."""

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
            # None: it was not set by Python, and cannot be set by it either.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        fd_registry.close(self.descriptor)

    def drain(self) -> int:
        """How many have come since the last call; the descriptor is no longer readable."""
        # A handler may strike between any two of these lines: the descriptor is read before the count is, and the
        # count only grows, so a signal is counted now or makes the descriptor readable again.
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        count = self._count
        new, self._drained = count - self._drained, count
        return new

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.first is None:
            self.first = number
        self._count += 1
        os.eventfd_write(self.descriptor, 1)
