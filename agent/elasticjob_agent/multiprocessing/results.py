"""Make torch's `RunProcsResult` of the exits and outcomes of workers: what `PContext.wait` returns; no I/O."""

from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.host.oom import OomCounter, may_be_oom
from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.multiprocessing.errors.failure import NOT_AVAILABLE
from elasticjob_agent.supervisor import Exit, FunctionOutcome

_NS = 1_000_000_000
_OUT_OF_MEMORY = (
    "out of memory: the kernel killed processes of this container; raise its memory limit or use less memory"
)


@dataclass
class RunProcsResult:
    """The ends of the workers of one start, by local rank: all values, or no value and the failures."""

    return_values: dict[int, Any] = field(default_factory=dict)
    """Return values of functions, None for commands; empty if any has failed."""
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    """Failures of workers that did not end with code 0."""
    stdouts: dict[int, str] = field(default_factory=dict)
    """The file of each stdout; empty for the console."""
    stderrs: dict[int, str] = field(default_factory=dict)
    """The file of each stderr; empty for the console."""

    def is_failed(self) -> bool:
        """Return whether at least one has failed."""
        return len(self.failures) > 0


def failure_of(
    rank: int,
    pid: int,
    exit_: Exit | None,
    *,
    error_file: str,
    outcome: FunctionOutcome | None = None,
    stopped_by_us: bool,
    memory: OomCounter | None = None,
) -> ProcessFailure:
    """Return the failure of one worker; an error file that cannot be read is reported in its message, never raised.

    Args:
        rank: its local rank.
        pid: its process id.
        exit_: its end; None if it survived SIGKILL.
        error_file: the path at which it may have left one.
        outcome: the outcome that a function worker sent.
        stopped_by_us: whether it would not have failed by itself.
        memory: counter of the kernel's out-of-memory kills, with a baseline from before the worker's start.
    """
    has_raised = outcome is not None and outcome.kind in "RUN"
    # A worker that sent its exception, and was stopped while it exited, has failed by itself, with code 1.
    code = -9 if exit_ is None else 1 if has_raised and exit_.stopped_by_us else exit_.code
    failure = _read(rank, pid, code, error_file)
    failure.stopped_by_us = stopped_by_us
    if failure.error_file == NOT_AVAILABLE:
        if exit_:
            failure.timestamp_ns, failure.timestamp = exit_.wall_ns, exit_.wall_ns // _NS
        failure.message = _message(outcome) or failure.message
        notes = _notes_on(failure, exit_, memory)
        failure.message = f"{failure.message} ({notes})" if notes else failure.message
    if exit_ is None:
        failure.message = f"process {pid} could not be killed: it hangs in the kernel"
    return failure


def _read(rank: int, pid: int, code: int, error_file: str) -> ProcessFailure:
    try:
        return ProcessFailure(rank, pid, code, error_file)
    except (OSError, ValueError) as error:
        failure = ProcessFailure(rank, pid, code, "")
        failure.message = f"{failure.message}; its error file {error_file} was unreadable: {error}"
        return failure


def _notes_on(failure: ProcessFailure, exit_: Exit | None, memory: OomCounter | None) -> str:
    """Return facts that its code does not show: an out-of-memory kill, a core dump, the supervisor's note."""
    starved = memory is not None and not failure.stopped_by_us and may_be_oom(failure.exitcode, str(failure.message))
    out_of_memory = _OUT_OF_MEMORY if memory and starved and memory.has_grown() else ""
    return "; ".join(filter(None, [out_of_memory, exit_.notes if exit_ else ""]))


def _message(outcome: FunctionOutcome | None) -> str:
    """Return the message of a failure that the worker did not write to its error file; empty without a failure."""
    if outcome is None or outcome.is_value:
        return ""
    fields = outcome.describe
    text = f"{fields['type']}: {fields['text']}"
    match outcome.kind:
        case "N":
            return f"the function never began, because its worker could not be set up: {text}"
        case "X" if not fields["text"].lstrip("-").isdigit():
            return f"exited with the message: {fields['text']}"
        case "R" | "U":
            return f"{text}\n{fields['traceback']}"
    return ""
