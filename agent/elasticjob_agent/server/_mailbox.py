"""Messages to an agent while it waits: signals, requests to stop, pushes. Its loop handles them between its steps.

Everything here may be called from a signal handler: a SimpleQueue is re-entrant, and nothing takes a lock. The first
signal decides how the agent ends; each further one means "at once".
"""

import contextlib
import math
import queue
import signal
import time
from collections.abc import Callable

from elasticjob_agent.multiprocessing import signals


class Mailbox:
    """The mailbox of one agent, for one run."""

    def __init__(self, on_second_signal: Callable[[], None]) -> None:
        """Keep the callback for each signal after the first; it must not block."""
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._on_second_signal = on_second_signal
        self.first: signal.Signals | None = None
        """The signal that ends the agent, or None before it."""
        self.is_urgent = False
        """Whether another signal came: nothing is waited for any more."""

    def wake(self) -> None:
        """Wake the waiting thread after a change."""
        self._queue.put(None)

    def signal(self, sigval: signal.Signals) -> None:
        """Record a signal, or a request with the same meaning."""
        if self.first is None:
            self.first = sigval
        else:
            self.is_urgent = True
            self._on_second_signal()
        self.wake()

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until a message comes, at most `timeout_s`; a message from before the call counts too."""
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with contextlib.suppress(queue.Empty):
            while self._wait_once(end_s - time.monotonic()):
                pass
            while True:
                self._queue.get_nowait()

    def _wait_once(self, left_s: float) -> bool:
        """Wait once; return True if nothing came, or raise queue.Empty at the end of the time."""
        longest_s = signals.max_wait_s()
        try:
            self._queue.get(timeout=max(0.0, min(left_s, longest_s)))
        except queue.Empty:
            if left_s <= longest_s:
                raise
            return True
        return False
