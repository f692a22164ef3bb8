"""The destinations of a worker's stdout and stderr: console, file, both or neither.

The table of --redirects, --tee and --local-ranks-filter is torchrun's, with two differences that lose no output.
Lines of several workers on a node have a prefix even without an option. And stderr always passes through the agent,
which keeps its end for the record of a failure.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import FileSink, Inherit, LineSink, Null, Sink
from elasticjob_agent.supervisor.stream_pump import open_log
from elasticjob_agent.workers.log_dir import WorkerLogs
from elasticjob_agent.workers.macros import fill_in
from elasticjob_api import log_layout

PREFIX_TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"

Write = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class StreamSelection:
    """The value of `-r` or `-t`: the selected streams, for all local ranks or by local rank."""

    all_ranks: int = 0
    by_rank: Mapping[int, int] | None = None

    def stdout(self, local_rank: int) -> bool:
        """Whether stdout of this local rank is selected."""
        return bool(self._of(local_rank) & 1)

    def stderr(self, local_rank: int) -> bool:
        """Whether stderr of this local rank is selected."""
        return bool(self._of(local_rank) & 2)

    def _of(self, local_rank: int) -> int:
        return self.all_ranks if self.by_rank is None else self.by_rank.get(local_rank, 0)


NO_STREAMS_SELECTED = StreamSelection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The options of the command line for the workers' streams; the defaults are those without options."""

    redirects: StreamSelection = NO_STREAMS_SELECTED
    tee: StreamSelection = NO_STREAMS_SELECTED
    console_ranks: frozenset[int] | None = None
    """Local ranks that appear on the console; None: all."""
    prefix_template: str | None = None
    """The prefix instead of the rank, with `${role_name}`, `${rank}` and `${local_rank}`."""
    keeps_rank: bool = False
    """Whether the rank stays in front of that prefix: in a pod, because `elasticjob logs` finds lines by it."""
    stdout_filters: tuple[str, ...] = ()
    stderr_filters: tuple[str, ...] = ()

    @property
    def wants_files(self) -> bool:
        """Whether an option asks for log files, so that they must remain after the run."""
        streams = (self.redirects, self.tee)
        return any(each.all_ranks or each.by_rank for each in streams) or bool(
            self.stdout_filters or self.stderr_filters
        )

    def prefix(self, assignment: Assignment, local_rank: int) -> bytes:
        """Return the prefix of a worker's lines on the console.

        A single worker without --tee has none but the template of the command line, as in torchrun.
        """
        rank = assignment.base_rank + local_rank
        values = {"role_name": assignment.role, "rank": rank, "local_rank": local_rank}
        text = fill_in(self.prefix_template or "", values)
        if self.prefix_template is not None and not self.keeps_rank:
            return text.encode()
        is_alone = assignment.nproc == 1 and not (self.tee.stdout(local_rank) or self.tee.stderr(local_rank))
        return b"" if is_alone else f"{log_layout.line_prefix(rank)}{text}".encode()

    def stdout(self, assignment: Assignment, local_rank: int, files: WorkerLogs, write: Write) -> Sink:
        """Return the destination of a worker's stdout; a single worker inherits the console, which can be a tty."""
        teed = self.tee.stdout(local_rank)
        if self.redirects.stdout(local_rank) and not teed:
            return FileSink(files.stdout)
        if not self._is_shown(local_rank):
            return FileSink(files.stdout) if teed else Null()
        if assignment.nproc == 1 and not teed and not self.stdout_filters:
            return Inherit()
        copy = filter_lines(files.folder.parent / log_layout.FILTERED_STDOUT_FILE, self.stdout_filters, write)
        return LineSink(files.stdout, self.prefix(assignment, local_rank), copy)

    def stderr(self, assignment: Assignment, local_rank: int, files: WorkerLogs, write: Write, tail: Write) -> Sink:
        """Return the destination of a worker's stderr; `tail` receives all of it."""
        teed = self.tee.stderr(local_rank)
        prefix = self.prefix(assignment, local_rank)
        if not self._is_shown(local_rank) or (self.redirects.stderr(local_rank) and not teed):
            return LineSink(files.stderr, prefix, tail)
        copy = filter_lines(files.folder.parent / log_layout.FILTERED_STDERR_FILE, self.stderr_filters, write)
        return LineSink(files.stderr, prefix, _write_both(copy, tail))

    def _is_shown(self, local_rank: int) -> bool:
        return self.console_ranks is None or local_rank in self.console_ranks


DEFAULT_OUTPUT = Output()
"""The destinations without any option."""


def filter_lines(path: Path, patterns: tuple[str, ...], write: Write) -> Write:
    """Return a function that calls `write`, and appends lines with one of `patterns` to the file `path`."""
    if not patterns:
        return write
    wanted = [word.encode() for word in patterns]

    def copy(data: bytes) -> None:
        found = b"".join(line for line in data.splitlines(keepends=True) if any(word in line for word in wanted))
        if found:
            _append(path, found)

    return _write_both(write, copy)


def _append(path: Path, data: bytes) -> None:
    """Append with one write, because several workers share the file. An error loses this copy and is ignored."""
    try:
        fd = open_log(path)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError:
        return


def _write_both(first: Write, second: Write) -> Write:
    def write(data: bytes) -> None:
        first(data)
        second(data)

    return write
