"""How one worker ended badly, as a record for the whole job: its code, its words, and what else is evident.

Three reasons are evident. The kernel killed it for want of memory. Rank 0 found MASTER_PORT taken. It ended before any
worker of this node had made progress, so it may well do so again. Ages are by the monotonic clock of this node; the
wall clock is for people only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.host import oom
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.master_port import MasterPort
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import Exit, StartError
from elasticjob_agent.workers.error_file import ErrorFileContents, StderrTail
from elasticjob_agent.workers.error_message import error_line, traceback_tail
from elasticjob_api.records import WorkerFailure

STARTUP_FAILURE_S = 10.0
"""A worker that exits within this time, and has reported no progress, has failed to start."""
ERROR_FILE_SLACK_S = 10.0
"""From a traceback to the end of its process; older ones are of exceptions that were caught and logged."""

_NOT_STARTED = re.compile(r"\b(ImportError|ModuleNotFoundError|SyntaxError)\b")
_IN_USE = re.compile(r"EADDRINUSE|address (is )?already in use", re.IGNORECASE)
_CLOCK_SLACK_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitedWorker:
    """The remains of one worker."""

    rank: int
    pid: int
    exit: Exit
    started_at_ns: int
    """Wall clock."""
    error_file: ErrorFileContents
    tail: StderrTail


class FailureRecorder:
    """Of one node's workers; notified of each start."""

    def __init__(
        self, *, pod: str, host: str, port: MasterPort, memory: OomCounter, progress: Callable[[], object | None]
    ) -> None:
        """`progress` gives the newest progress told: another object with each."""
        self._pod = pod
        self._host = host
        self._port = port
        self._memory = memory
        self._progress = progress
        self._progress_before: object | None = None
        self._started_s = 0.0
        self._assignment: Assignment | None = None

    def round_started(self, assignment: Assignment, now_s: float) -> None:
        """The workers of `assignment` start now (monotonic seconds)."""
        self._assignment, self._started_s = assignment, now_s
        self._progress_before = self._progress()
        self._memory.take_baseline()

    def record(self, exited: ExitedWorker) -> WorkerFailure:
        """The record of one that ended."""
        end, said = exited.exit, exited.error_file.message
        words = said or self._message_of(exited)
        return WorkerFailure(
            incarnation="",
            rank=exited.rank,
            exit_code=end.code,
            signal=end.signal_name or "",
            message=words or ("core dumped" if end.core_dumped else ""),
            pod=self._pod,
            host=self._host,
            pid=exited.pid,
            time_ns=_when_ns(exited),
            stopped_by_agent=end.stopped_by_us,
            oom=oom.may_be_oom(end.code, words) and not end.stopped_by_us and self._memory.has_grown(),
            startup=self._is_startup(end, words),
            port_taken=self._is_port_conflict(exited, words),
            stderr=exited.tail.text,
        )

    def record_start_error(self, rank: int, error: StartError, time_ns: int) -> WorkerFailure:
        """The record of one that could not be started."""
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
        """Of the end of its stderr: why it exited; or, if we had signalled it, what it was dying of already."""
        end, tail = exited.exit, exited.tail
        if not end.stopped_by_us:
            return error_line(tail.text) if end.code > 0 else ""
        return traceback_tail(tail.text) if end.at_s - tail.at_s < ERROR_FILE_SLACK_S else ""

    def _is_startup(self, end: Exit, words: str) -> bool:
        if self._progress() is not self._progress_before:
            return False
        return end.at_s - self._started_s < STARTUP_FAILURE_S or _NOT_STARTED.search(words) is not None

    def _is_port_conflict(self, exited: ExitedWorker, words: str) -> bool:
        """Only rank 0 binds MASTER_PORT; another port in use is its own affair."""
        said = f"{words}\n{exited.tail.text}"
        if self._assignment is None or exited.rank != 0 or not _IN_USE.search(said):
            return False
        number = self._assignment.master_port
        return re.search(rf"\b{number}\b", said) is not None or self._port.is_taken(number)


def _when_ns(exited: ExitedWorker) -> int:
    """When the error was caught, if the worker's word for it can be true; else when it ended."""
    told, end = exited.error_file.time_ns, exited.exit.wall_ns
    can_be = exited.started_at_ns - _CLOCK_SLACK_NS <= told <= end + _CLOCK_SLACK_NS
    return told if can_be else end
