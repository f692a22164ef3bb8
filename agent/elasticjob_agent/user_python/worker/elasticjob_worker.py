"""Optional help for a training script: tell how far it is, be alive, stop in good order, show its stacks.

One file, the standard library alone, Python 3.8 or newer: import it as `from elasticjob_agent import worker`, or
copy it. Every function may be called anywhere: where no elasticjob agent listens, it does nothing. None ever blocks
or raises because of the agent: telling is for showing, and may not hurt a run.

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
"""Bytes that a FIFO takes in one piece: no other worker's line lands inside."""


class _State:
    """What is remembered of the agent: its FIFO, and that it has asked to stop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.path = ""
        self.fd = -1
        self.stop_at_s = None  # type: Optional[float]

    def fifo(self) -> int:
        """The FIFO's descriptor, opened once; -1 if no agent reads it."""
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
    """Tell the step just done, of how many, and any metrics: a name and a number or short text each.

    True if the agent has it; False where there is none, or it is busy: the next report says more anyway.
    """
    said = {name: _truncate(value) for name, value in metrics.items()}
    return _send({"step": _as_int(step), "total": _as_int(total), "metrics": said})


def heartbeat() -> bool:
    """Say no more than that this worker is alive, as in a long step without output. True if the agent has it."""
    return _send({"alive": True})


def catch_stop(signum: int = signal.SIGTERM) -> None:
    """From now on the agent's friendly signal does not end this process: `stop_requested` is true instead.

    It comes before every planned change (nodes come or go, a preemption) and after failures elsewhere; the grace that
    follows is the job's gracefulShutdown, or short after a failure. Call it in the main thread.
    """

    def stop(_number: int, _frame: Any) -> None:
        if _state.stop_at_s is None:
            _state.stop_at_s = time.monotonic()

    signal.signal(signum, stop)


def stop_requested() -> bool:
    """True once the agent has asked this worker to stop: save, and return."""
    return _state.stop_at_s is not None


def seconds_since_stop() -> float:
    """How long ago that was; 0.0 if it was not."""
    return 0.0 if _state.stop_at_s is None else time.monotonic() - _state.stop_at_s


def dump_stacks_on_request(signum: int = signal.SIGUSR1) -> bool:
    """Let the agent have the stacks of all threads on stderr when it suspects that the job hangs.

    It sends `signum` only to processes that have called this. True if the agent knows.
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
        except OSError:  # full: the agent is busy; or broken: it is gone
            return False


def _as_int(value: Optional[int]) -> Optional[int]:
    return None if value is None else int(value)


def _truncate(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:128]
