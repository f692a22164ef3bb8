"""From exits and answers of workers to the result that a context returns."""

from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.host.oom import OomCounter, may_be_oom
from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.multiprocessing.errors.failure import NOT_AVAILABLE
from elasticjob_agent.supervisor import Exit, Outcome

_NS = 1_000_000_000
_OUT_OF_MEMORY = "out of memory: the kernel has killed in this container meanwhile; raise its limit, or use less"


@dataclass
class RunProcsResult:
    """How the workers of one start have ended, by local rank: all values, or no value and the failures."""

    return_values: dict[int, Any] = field(default_factory=dict)
    """What functions have returned, None for commands; empty if any has failed."""
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    """How those have ended that did not end well."""
    stdouts: dict[int, str] = field(default_factory=dict)
    """The file of each stdout; empty for the console."""
    stderrs: dict[int, str] = field(default_factory=dict)
    """The file of each stderr; empty for the console."""

    def is_failed(self) -> bool:
        """At least one has failed."""
        return len(self.failures) > 0


def failure_of(
    rank: int,
    pid: int,
    exit_: Exit | None,
    *,
    error_file: str,
    outcome: Outcome | None = None,
    stopped_by_us: bool,
    memory: OomCounter | None = None,
) -> ProcessFailure:
    """Describe one failed worker; an error file that cannot be read is said in its message, never an exception.

    Args:
        rank: its local rank.
        pid: its process id.
        exit_: how it ended; None if it outlived SIGKILL.
        error_file: where it may have left one.
        outcome: what a function worker told.
        stopped_by_us: it would not have failed.
        memory: the kernel's kills for want of memory, marked before the worker started.
    """
    told = outcome is not None and outcome.kind in "RUN"
    # One that has told its exception and was stopped on its way out has failed by itself, with 1.
    code = -9 if exit_ is None else 1 if told and exit_.stopped_by_us else exit_.code
    failure = _read(rank, pid, code, error_file)
    failure.stopped_by_us = stopped_by_us
    if failure.error_file == NOT_AVAILABLE:
        if exit_:
            failure.timestamp_ns, failure.timestamp = exit_.wall_ns, exit_.wall_ns // _NS
        failure.message = _message(outcome) or failure.message
        remarks = _notes_on(failure, exit_, memory)
        failure.message = f"{failure.message} ({remarks})" if remarks else failure.message
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
    """What its code does not tell: a core dump, a kill for want of memory, what the supervisor noted."""
    starved = memory is not None and not failure.stopped_by_us and may_be_oom(failure.exitcode, str(failure.message))
    out_of_memory = _OUT_OF_MEMORY if memory and starved and memory.has_grown() else ""
    return "; ".join(filter(None, [out_of_memory, exit_.notes if exit_ else ""]))


def _message(outcome: Outcome | None) -> str:
    """What a function worker told that is in no error file."""
    if outcome is None or outcome.is_value:
        return ""
    words = outcome.describe
    said = f"{words['type']}: {words['text']}"
    match outcome.kind:
        case "N":
            return f"the function never began: its worker could not be set up: {said}"
        case "X" if not words["text"].lstrip("-").isdigit():
            return f"exited with the message: {words['text']}"
        case "R" | "U":
            return f"{said}\n{words['traceback']}"
    return ""
