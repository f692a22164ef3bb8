"""What reaches an agent while it waits: signals, requests to stop, pushes. Its loop acts on them between its steps.

Everything here may be called from a signal handler: a SimpleQueue is re-entrant, and nothing takes a lock. The
first signal decides how the agent ends; each further one means "at once".
"""

import queue
import signal
import threading
from collections.abc import Callable


class Inbox:
    """One agent's inbox, for one run."""

    def __init__(self, on_second: Callable[[], None]) -> None:
        """`on_second` is called at a signal after the first; it must not wait."""
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._on_second = on_second
        self.first: signal.Signals | None = None
        """The signal that ends the agent, once one came."""
        self.is_urgent = False
        """Another one came: what is still awaited is awaited no more."""

    def wake(self) -> None:
        """Something has changed: whoever waits looks."""
        self._queue.put(None)

    def signal(self, sigval: signal.Signals) -> None:
        """A signal, or a request with the same meaning."""
        if self.first is None:
            self.first = sigval
        else:
            self.is_urgent = True
            self._on_second()
        self.wake()

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until something comes, at most `timeout_s`; a look that was due is not lost."""
        try:
            self._queue.get(timeout=None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
            while True:
                self._queue.get_nowait()
        except queue.Empty:
            pass
