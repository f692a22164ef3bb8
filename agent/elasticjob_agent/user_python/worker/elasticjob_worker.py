"""Optional helper for a training script: report progress, send heartbeats, stop in order, show stacks.

It is one file that needs only the standard library of Python 3.8 or newer. Import it as `from elasticjob_agent import
worker`, or copy it. Each function can be called anywhere; without an elasticjob agent it does nothing. No function
blocks or raises because of the agent: reports are for display, and must not harm a run.

    worker.dump_stacks_on_request()
    worker.catch_stop()
    for step in range(first, steps):
        ...
        worker.report(step=step, total=steps, loss=loss)
        if worker.stop_requested():
            save(step)
            break
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Dict, Optional

PROGRESS = "ELASTICJOB_PROGRESS"
"""The variable that names the agent's FIFO."""
MAX_LINE = 4096
"""Bytes that a FIFO accepts atomically, so that lines of two workers do not mix."""


class _State:
    """The agent's FIFO, and the time at which the agent asked this worker to stop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.path = ""
        self.fd = -1
        self.stop_at_s = None  # type: Optional[float]
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # The thread that held it is not in this process, so it would never be released.
        self.lock = threading.Lock()

    def fifo(self) -> int:
        """Return the FIFO's descriptor, opened once; -1 if no agent reads it."""
        path = os.environ.get(PROGRESS, "")
        if path != self.path or self.fd < 0:
            self.path = path
            try:
                self.fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC) if path else -1
            except OSError:
                self.fd = -1
        return self.fd


_state = _State()


def report(step: Optional[int] = None, total: Optional[int] = None, **metrics: Any) -> bool:
    """Report the step just done, the total number of steps, and metrics: each a name and a number or a short text.

    Return True if the report was written; False if there is no agent or it is busy. The next report replaces it anyway.
    """
    texts = {name: _truncate(value) for name, value in metrics.items()}
    return _send({"step": _as_int(step), "total": _as_int(total), "metrics": texts})


def heartbeat() -> bool:
    """Report that this worker is alive, for example in a long step without output. Return True if it was written."""
    return _send({"alive": True})


def catch_stop(signum: int = signal.SIGTERM) -> None:
    """Catch the agent's stop signal: it no longer ends this process, but makes `stop_requested` return True.

    The agent sends it before every planned change (nodes come or go, a preemption) and after failures elsewhere. The
    grace that follows is the job's gracefulShutdown; after a failure it is short. Call this in the main thread.
    """

    def stop(_number: int, _frame: Any) -> None:
        if _state.stop_at_s is None:
            _state.stop_at_s = time.monotonic()

    signal.signal(signum, stop)


def stop_requested() -> bool:
    """Return True once the agent has asked this worker to stop; then save and return."""
    return _state.stop_at_s is not None


def seconds_since_stop() -> float:
    """Return the seconds since that request; 0.0 without one."""
    return 0.0 if _state.stop_at_s is None else time.monotonic() - _state.stop_at_s


def dump_stacks_on_request(signum: int = signal.SIGUSR1) -> bool:
    """Write the stacks of all threads to stderr when the agent suspects that the job hangs.

    The agent sends `signum` only to processes that have called this. Return True if the agent was informed.
    """
    stderr = sys.__stderr__
    if stderr is None:
        return False
    faulthandler.register(signum, file=stderr, all_threads=True)
    return _send({"stacks": {"pid": os.getpid(), "signal": int(signum)}})


def _send(message: Dict[str, Any]) -> bool:
    line = (json.dumps(message) + "\n").encode()
    if len(line) > MAX_LINE:
        return False
    with _state.lock:
        fd = _state.fifo()
        try:
            return fd >= 0 and os.write(fd, line) == len(line)
        except OSError:  # the FIFO is full (the agent is busy) or broken (it is gone)
            return False


def _as_int(value: Optional[int]) -> Optional[int]:
    return None if value is None else int(value)


def _truncate(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:128]
