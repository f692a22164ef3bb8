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
from elasticjob_agent.workers.error_file import Tail, Told
from elasticjob_agent.workers.error_message import last_words, uncaught
from elasticjob_api.records import Failure

STARTUP_S = 10.0
"""A worker that exits within this time, and has reported no progress, has failed to start."""
DYING_S = 10.0
"""From a traceback to the end of its process; older ones are of exceptions that were caught and logged."""

_NEVER_STARTED = re.compile(r"\b(ImportError|ModuleNotFoundError|SyntaxError)\b")
_IN_USE = re.compile(r"EADDRINUSE|address (is )?already in use", re.IGNORECASE)
_CLOCK_SLACK_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """The remains of one worker."""

    rank: int
    pid: int
    end: Exit
    started_at_ns: int
    """Wall clock."""
    told: Told
    tail: Tail


class Autopsy:
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
        self._place: Assignment | None = None

    def begin(self, place: Assignment, now_s: float) -> None:
        """The workers of `place` start now (monotonic seconds)."""
        self._place, self._started_s = place, now_s
        self._progress_before = self._progress()
        self._memory.mark()

    def of(self, remains: Remains) -> Failure:
        """The record of one that ended."""
        end, said = remains.end, remains.told.message
        words = said or self._words(remains)
        return Failure(
            incarnation="",
            rank=remains.rank,
            exit_code=end.code,
            signal=end.signal_name or "",
            message=words or ("core dumped" if end.core_dumped else ""),
            pod=self._pod,
            host=self._host,
            pid=remains.pid,
            time_ns=_when_ns(remains),
            killed_by_us=end.stopped_by_us,
            oom=oom.is_suspect(end.code, words) and not end.stopped_by_us and self._memory.has_grown(),
            startup=self._is_startup(end, words),
            port_taken=self._found_port_taken(remains, words),
            stderr=remains.tail.text,
        )

    def of_none(self, rank: int, error: StartError, time_ns: int) -> Failure:
        """The record of one that could not be started."""
        return Failure(
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
    def _words(remains: Remains) -> str:
        """Of the end of its stderr: why it exited; or, if we had signalled it, what it was dying of already."""
        end, tail = remains.end, remains.tail
        if not end.stopped_by_us:
            return last_words(tail.text) if end.code > 0 else ""
        return uncaught(tail.text) if end.at_s - tail.at_s < DYING_S else ""

    def _is_startup(self, end: Exit, words: str) -> bool:
        if self._progress() is not self._progress_before:
            return False
        return end.at_s - self._started_s < STARTUP_S or _NEVER_STARTED.search(words) is not None

    def _found_port_taken(self, remains: Remains, words: str) -> bool:
        """Only rank 0 binds MASTER_PORT; another port in use is its own affair."""
        said = f"{words}\n{remains.tail.text}"
        if self._place is None or remains.rank != 0 or not _IN_USE.search(said):
            return False
        number = self._place.master_port
        return re.search(rf"\b{number}\b", said) is not None or self._port.is_taken(number)


def _when_ns(remains: Remains) -> int:
    """When the error was caught, if the worker's word for it can be true; else when it ended."""
    told, end = remains.told.time_ns, remains.end.wall_ns
    can_be = remains.started_at_ns - _CLOCK_SLACK_NS <= told <= end + _CLOCK_SLACK_NS
    return told if can_be else end
