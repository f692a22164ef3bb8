"""How the workers of one round were started, and when they first wrote; for the report.

Only streams that pass through the agent are seen. A worker whose stdout does not is left out: its first byte on stderr
may be a warning at the end of its run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from elasticjob_agent.supervisor import Child, Command, LineSink
from elasticjob_api.one_line import shorten
from elasticjob_api.records import StartReport

_LOST = "a worker that was forked ahead has ended"
_REASON_LIMIT = 256


class StartObserver:
    """The start of one round."""

    def __init__(self, wall_ns: Callable[[], int], on_first_output: Callable[[], None]) -> None:
        """`wall_ns` is the wall clock in ns; `on_first_output` is called once."""
        self._wall_ns = wall_ns
        self._on_first_output = on_first_output
        self._first_output_ns: int | None = None

    def observe(self, command: Command) -> Command:
        """Return the command with streams that note their first byte."""
        if not (isinstance(command.stdout, LineSink) and isinstance(command.stderr, LineSink)):
            return command
        return replace(command, stdout=self._observed(command.stdout), stderr=self._observed(command.stderr))

    def report(self, children: Sequence[Child], cold_reason: str) -> StartReport:
        """Return the report about these workers; `cold_reason` is empty if all were to be started warm."""
        warm = sum(child.is_warm for child in children)
        reason = "" if warm == len(children) else shorten(cold_reason or _LOST, _REASON_LIMIT)
        return StartReport(warm=warm, cold_reason=reason, first_output_s=self._first_output_s(children))

    def _first_output_s(self, children: Sequence[Child]) -> float | None:
        if self._first_output_ns is None:
            return None
        started_ns = min(child.started_at_ns for child in children)
        return round(max(0, self._first_output_ns - started_ns) / 1e9, 3)

    def _observed(self, sink: LineSink) -> LineSink:
        return replace(sink, on_first_byte=self._note_byte)

    def _note_byte(self) -> None:
        if self._first_output_ns is None:
            self._first_output_ns = self._wall_ns()
            self._on_first_output()
