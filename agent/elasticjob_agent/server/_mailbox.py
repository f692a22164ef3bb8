"""Messages to an agent while it waits: signals, requests to stop, pushes. Its loop acts on them between its steps.

Everything here may be called from a signal handler: a SimpleQueue is re-entrant, and nothing takes a lock. The
first signal decides how the agent ends; each further one means "at once".
"""

import contextlib
import math
import queue
import signal
import time
from collections.abc import Callable

from elasticjob_agent.multiprocessing import signals


class Mailbox:
    """One agent's inbox, for one run."""

    def __init__(self, on_second_signal: Callable[[], None]) -> None:
        """`on_second_signal` is called at a signal after the first; it must not wait."""
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._on_second_signal = on_second_signal
        self.first: signal.Signals | None = None
        """The signal that ends the agent, once one came."""
        self.is_urgent = False
        """Another one came: what is still awaited is awaited no more."""

    def wake(self) -> None:
        """Wake the waiting thread: something has changed."""
        self._queue.put(None)

    def signal(self, sigval: signal.Signals) -> None:
        """A signal, or a request with the same meaning."""
        if self.first is None:
            self.first = sigval
        else:
            self.is_urgent = True
            self._on_second_signal()
        self.wake()

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until something comes, at most `timeout_s`; a look that was due is not lost."""
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with contextlib.suppress(queue.Empty):
            while self._is_empty(end_s - time.monotonic()):
                pass
            while True:
                self._queue.get_nowait()

    def _is_empty(self, left_s: float) -> bool:
        """Nothing has come within the longest wait at a time; raises queue.Empty at the end of the time."""
        longest_s = signals.max_wait_s()
        try:
            self._queue.get(timeout=max(0.0, min(left_s, longest_s)))
        except queue.Empty:
            if left_s <= longest_s:
                raise
            return True
        return False
