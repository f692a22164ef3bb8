"""Wait for several processes: `join` ends the others after the first failure, and raises that failure.

The wait is a poll over the processes' sentinels. So an end, or an interrupt of the caller's thread, is noticed at once.
The failure is chosen once, when it is first seen, and then kept. The others are never blamed for the effects of the
clean-up, however often `join` is called or interrupted.
"""

import logging
import time
import warnings
from collections.abc import Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Protocol

from elasticjob_agent.spawn.errors import ProcessException, ProcessExitedException, raised
from elasticjob_agent.spawn.timeouts import timeouts

log = logging.getLogger(__name__)


class Process(Protocol):
    """The part of a process that a context needs; `multiprocessing.Process` of the standard library has it too."""

    @property
    def pid(self) -> int | None:
        """Return its process id, also after its end."""

    @property
    def exitcode(self) -> int | None:
        """Return 0 to 255, or minus the number of a signal; None while it runs."""

    @property
    def sentinel(self) -> int:
        """Return a descriptor that is readable once it has ended."""

    def is_alive(self) -> bool:
        """Return whether it has not ended."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most `timeout` seconds."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ProcessContext:
    """Started processes, in index order."""

    def __init__(self, processes: Sequence[Process], error_files: Sequence[str]) -> None:
        """Take processes that have been started.

        Args:
            processes: in the order of their indices.
            error_files: for each process, the path for its traceback as text; empty for none.
        """
        self.processes = list(processes)
        self.error_files = list(error_files)
        self.sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}
        """Indices of processes not joined yet, by a descriptor that is readable once the process has ended."""
        self._failed: int | None = None
        self._failure: ProcessException | None = None

    def pids(self) -> list[int]:
        """Return their process ids in index order, also after the end."""
        return [int(process.pid or 0) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until at least one more process has ended; return whether all have ended with code 0.

        After a failure, the others are ended. They have `grace_period` seconds to end by themselves (None: no time).
        Then they get SIGTERM, and after the same time again (None: 30 s) SIGKILL.

        Args:
            timeout: seconds to wait, without the clean-up after a failure; None for ever, 0 or less only checks.
            grace_period: see above.

        Raises:
            ProcessRaisedException: the process that failed first raised this.
            ProcessExitedException: it was killed, or exited with another code than 0.
        """
        if self._failed is None and self.sentinels:
            self._reap_ready(connection.wait(list(self.sentinels), timeout))
            self._failed = self._first_failed()
        if self._failed is not None:
            self._clean_up(grace_period)
            # Always the same exception; without the traceback of earlier joins, which each raise would extend.
            raise self._exception(self._failed).with_traceback(None)
        if not self.sentinels:
            self._sweep()
        return not self.sentinels

    def _reap_ready(self, ready: Sequence[object]) -> None:
        for sentinel in ready:
            if isinstance(sentinel, int):
                index = self.sentinels.pop(sentinel)
                self.processes[index].join()

    def _first_failed(self) -> int | None:
        failed = [index for index, process in enumerate(self.processes) if process.exitcode]
        return min(failed, key=self._ended_at, default=None)

    def _ended_at(self, index: int) -> float:
        """Return a time that orders ends; processes of the standard library have none."""
        return float(getattr(self.processes[index], "ended_at_s", 0.0))

    def _clean_up(self, grace_period: float | None) -> None:
        limits = timeouts(grace_period)
        self._wait_for_others(limits.wait_s)
        for process in self.processes:
            if process.is_alive():
                log.warning("Terminating process %s via signal SIGTERM", process.pid)  # torch's text
        self._end(limits.terminate_s)
        self.sentinels.clear()

    def _wait_for_others(self, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        left = {process.sentinel for process in self.processes if process.is_alive()}
        while left and (remaining_s := deadline_s - time.monotonic()) > 0:
            left -= set(connection.wait(list(left), remaining_s))

    def _end(self, grace_s: float) -> None:
        """End all processes; SIGKILL follows SIGTERM after `grace_s` seconds."""
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait_for_others(grace_s)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _sweep(self) -> None:
        """Remove processes left by those that have ended by themselves."""

    def _exception(self, index: int) -> ProcessException:
        if self._failure is None:
            self._failure = self._reported(index)
        return self._failure

    def _reported(self, index: int) -> ProcessException:
        process = self.processes[index]
        pid, traceback = int(process.pid or 0), self._traceback(index)
        if traceback:
            return raised(index, pid=pid, traceback=traceback)
        return ProcessExitedException.of(index, pid=pid, exit_code=int(process.exitcode or 0))

    def _traceback(self, index: int) -> str:
        """Return the traceback of this process's function, or an empty text if it did not raise."""
        try:
            return Path(self.error_files[index]).read_text(errors="replace") if self.error_files[index] else ""
        except OSError:  # no file: it was not written
            return ""


class SpawnContext(ProcessContext):
    """The former name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Process], error_files: Sequence[str]) -> None:
        warnings.warn("SpawnContext is the former name of ProcessContext; use that", stacklevel=2)
        super().__init__(processes, error_files)
