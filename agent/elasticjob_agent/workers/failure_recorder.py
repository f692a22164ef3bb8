"""The failure of one worker as a record for the whole job: exit code, message, and detected reasons.

Three reasons are detected. The kernel killed the worker because memory ran out. Rank 0 found MASTER_PORT in use. The
worker failed to start, so it will probably fail again. Durations are measured by the monotonic clock of this node; the
wall clock is only shown to users.
"""

import re
from collections.abc import Callable

from elasticjob_agent.host import oom
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.ports import is_taken
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.startup_failure import is_startup_failure
from elasticjob_agent.supervisor import Exit, StartError
from elasticjob_agent.workers.error_file import ErrorFileContents, StderrTail
from elasticjob_agent.workers.error_message import error_line, traceback_tail
from elasticjob_api.records import WorkerFailure

ERROR_FILE_SLACK_S = 10.0
"""Seconds from a traceback to the end of its process; an older traceback is of an exception that was only logged."""

_IN_USE = re.compile(r"EADDRINUSE|address (is )?already in use", re.IGNORECASE)
_CLOCK_SLACK_NS = 10**9


class FailureRecorder:
    """Makes the failure records of one node's workers; it must be notified of each start."""

    def __init__(
        self,
        *,
        pod: str,
        host: str,
        memory: OomCounter,
        has_progress: Callable[[], bool],
        has_output: Callable[[], bool],
    ) -> None:
        """`has_progress` returns whether a worker of this round has reported progress.

        `has_output` returns whether one has written to stdout.
        """
        self._pod = pod
        self._host = host
        self._memory = memory
        self._has_progress = has_progress
        self._has_output = has_output
        self._started_s = 0.0

    def round_started(self, now_s: float) -> None:
        """Record that the workers of a round start at `now_s` (monotonic seconds)."""
        self._started_s = now_s
        self._memory.take_baseline()

    def record(
        self,
        assignment: Assignment,
        local_rank: int,
        end: Exit,
        *,
        pid: int,
        started_at_ns: int,
        reported: ErrorFileContents,
        tail: StderrTail,
    ) -> WorkerFailure:
        """Return the record of a worker that has exited; `started_at_ns` is its start by the wall clock."""
        rank = assignment.base_rank + local_rank
        message = reported.message or _message_of(end, tail)
        return WorkerFailure(
            incarnation=assignment.member.incarnation,
            rank=rank,
            exit_code=end.code,
            signal=end.signal_name or "",
            message=message or ("core dumped" if end.core_dumped else ""),
            pod=self._pod,
            host=self._host,
            pid=pid,
            time_ns=_when_ns(reported, started_at_ns, end.wall_ns),
            stopped_by_agent=end.stopped_by_us,
            oom=oom.may_be_oom(end.code, message) and not end.stopped_by_us and self._memory.has_grown(),
            startup=is_startup_failure(
                life_s=end.at_s - self._started_s,
                has_progress=self._has_progress(),
                has_output=self._has_output(),
                message=message,
            ),
            port_taken=rank == 0 and _is_port_conflict(f"{message}\n{tail.text}", assignment.master_port),
            stderr=tail.text,
        )

    def record_start_error(self, assignment: Assignment, error: StartError, time_ns: int) -> WorkerFailure:
        """Return the record of workers that could not be started."""
        return WorkerFailure(
            incarnation=assignment.member.incarnation,
            rank=assignment.base_rank,
            exit_code=error.exit_code,
            message=str(error),
            pod=self._pod,
            host=self._host,
            time_ns=time_ns,
            startup=True,
        )


def _message_of(end: Exit, tail: StderrTail) -> str:
    """Return the reason from the end of stderr; for a worker that we stopped, an exception that came before."""
    if not end.stopped_by_us:
        return error_line(tail.text) if end.code > 0 else ""
    return traceback_tail(tail.text) if end.at_s - tail.at_s < ERROR_FILE_SLACK_S else ""


def _is_port_conflict(text: str, master_port: int) -> bool:
    """Whether rank 0, which alone binds MASTER_PORT, found it in use; other ports do not count."""
    if not _IN_USE.search(text):
        return False
    return re.search(rf"\b{master_port}\b", text) is not None or is_taken(master_port)


def _when_ns(reported: ErrorFileContents, started_ns: int, end_ns: int) -> int:
    """Return the time at which the error was caught, if the error file has a plausible one; else the time of exit."""
    is_plausible = started_ns - _CLOCK_SLACK_NS <= reported.time_ns <= end_ns + _CLOCK_SLACK_NS
    return reported.time_ns if is_plausible else end_ns
