"""The failure of one worker as a record for the whole job: exit code, message, and detected reasons.

Three reasons are detected. The kernel killed the worker because memory ran out. Rank 0 found MASTER_PORT in use. The
worker ended before any worker of this node made progress, so it will probably fail again. Durations are measured by
the monotonic clock of this node; the wall clock is only shown to users.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.host import oom
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.ports import has_listener
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import Exit, StartError
from elasticjob_agent.workers.error_file import ErrorFileContents, StderrTail
from elasticjob_agent.workers.error_message import error_line, traceback_tail
from elasticjob_api.records import WorkerFailure

STARTUP_FAILURE_S = 10.0
"""A worker that exits within this time, and has reported no progress, has failed to start."""
ERROR_FILE_SLACK_S = 10.0
"""Seconds from a traceback to the end of its process; an older traceback is of an exception that was only logged."""

_NOT_STARTED = re.compile(r"\b(ImportError|ModuleNotFoundError|SyntaxError)\b")
_IN_USE = re.compile(r"EADDRINUSE|address (is )?already in use", re.IGNORECASE)
_CLOCK_SLACK_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitedWorker:
    """One worker that has exited, with its error report."""

    rank: int
    pid: int
    exit: Exit
    started_at_ns: int
    """Wall clock."""
    error_file: ErrorFileContents
    tail: StderrTail


class FailureRecorder:
    """Makes the failure records of one node's workers; it must be notified of each start."""

    def __init__(self, *, pod: str, host: str, memory: OomCounter, has_progress: Callable[[], bool]) -> None:
        """`has_progress` returns whether a worker has reported progress in this round."""
        self._pod = pod
        self._host = host
        self._memory = memory
        self._has_progress = has_progress
        self._started_s = 0.0
        self._assignment: Assignment | None = None

    def round_started(self, assignment: Assignment, now_s: float) -> None:
        """Record that the workers of `assignment` start at `now_s` (monotonic seconds)."""
        self._assignment, self._started_s = assignment, now_s
        self._memory.take_baseline()

    def record(self, exited: ExitedWorker) -> WorkerFailure:
        """Return the record of a worker that has exited."""
        end = exited.exit
        message = exited.error_file.message or self._message_of(exited)
        return WorkerFailure(
            incarnation="",
            rank=exited.rank,
            exit_code=end.code,
            signal=end.signal_name or "",
            message=message or ("core dumped" if end.core_dumped else ""),
            pod=self._pod,
            host=self._host,
            pid=exited.pid,
            time_ns=_when_ns(exited),
            stopped_by_agent=end.stopped_by_us,
            oom=oom.may_be_oom(end.code, message) and not end.stopped_by_us and self._memory.has_grown(),
            startup=self._is_startup(end, message),
            port_taken=self._is_port_conflict(exited, message),
            stderr=exited.tail.text,
        )

    def record_start_error(self, rank: int, error: StartError, time_ns: int) -> WorkerFailure:
        """Return the record of a worker that could not be started."""
        return WorkerFailure(
            incarnation="",
            rank=rank,
            exit_code=error.exit_code,
            message=str(error),
            pod=self._pod,
            host=self._host,
            time_ns=time_ns,
            startup=True,
        )

    @staticmethod
    def _message_of(exited: ExitedWorker) -> str:
        """Return the reason from the end of stderr; for a worker that we stopped, an exception that came before."""
        end, tail = exited.exit, exited.tail
        if not end.stopped_by_us:
            return error_line(tail.text) if end.code > 0 else ""
        return traceback_tail(tail.text) if end.at_s - tail.at_s < ERROR_FILE_SLACK_S else ""

    def _is_startup(self, end: Exit, message: str) -> bool:
        """Whether the worker failed to start: no progress, and an early end or an error of an import."""
        if self._has_progress():
            return False
        return end.at_s - self._started_s < STARTUP_FAILURE_S or _NOT_STARTED.search(message) is not None

    def _is_port_conflict(self, exited: ExitedWorker, message: str) -> bool:
        """Whether rank 0, which alone binds MASTER_PORT, found it in use; other ports do not count."""
        text = f"{message}\n{exited.tail.text}"
        if self._assignment is None or exited.rank != 0 or not _IN_USE.search(text):
            return False
        number = self._assignment.master_port
        return re.search(rf"\b{number}\b", text) is not None or has_listener(number)


def _when_ns(exited: ExitedWorker) -> int:
    """Return the time at which the error was caught, if the error file has a plausible one; else the time of exit."""
    reported_ns, end_ns = exited.error_file.time_ns, exited.exit.wall_ns
    is_plausible = exited.started_at_ns - _CLOCK_SLACK_NS <= reported_ns <= end_ns + _CLOCK_SLACK_NS
    return reported_ns if is_plausible else end_ns
