"""Errors on their way from worker to parent: `record` writes them, `ProcessFailure` and `ChildFailedError` show them.

Invariant: a recorded exception is also raised; an error while recording it is only logged.
"""

import functools
import json
import logging
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from elasticjob_agent.multiprocessing.errors.error_handler import ErrorHandler
from elasticjob_agent.multiprocessing.errors.failure import NOT_AVAILABLE, ProcessFailure, first_failure
from elasticjob_agent.multiprocessing.errors.handlers import get_error_handler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

logger = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
_WIDTH = 60


class ChildFailedError(Exception):
    """Workers have failed; its text is a report with the root cause last."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        """Build the report.

        Args:
            name: the workers' entry point.
            failures: by global rank, at least one.
        """
        if not failures:
            raise AssertionError("a ChildFailedError needs at least one failure")
        self.name = name
        self.failures = failures
        super().__init__(self.format_msg())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return rank and failure of the root cause: the earliest of those that were not stopped by us."""
        return first_failure(self.failures)

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """Return the report: all failures with time, host, rank, exit code and traceback, the root cause last.

        Args:
            boarder_delim: the character of the outer lines.
            section_delim: the character of the lines between sections.
        """
        root, _ = self.get_first_failure()
        border, section = boarder_delim * _WIDTH, section_delim * _WIDTH
        texts = {rank: self._format_failure(index, rank) for index, rank in enumerate(self.failures)}
        others = [text for rank, text in texts.items() if rank != root] or ["  <NO_OTHER_FAILURES>"]
        lines = ["", border, f"{self.name} FAILED", section, "Failures:", *others]
        lines += [section, "Root Cause (first observed failure):", texts[root], border]
        return "\n".join(lines)

    def _format_failure(self, index: int, rank: int) -> str:
        failure = self.failures[rank]
        named = f" ({failure.signal_name()})" if failure.signal_name() != NOT_AVAILABLE else ""
        stopped = ", stopped because of another's failure" if failure.stopped_by_us else ""
        return "\n".join(
            [
                f"[{index}]:",
                f"  time      : {failure.timestamp_isoformat()}",
                f"  host      : {socket.gethostname()}",
                f"  rank      : {rank} (local_rank: {failure.local_rank})",
                f"  exitcode  : {failure.exitcode} (pid: {failure.pid}){named}{stopped}",
                f"  error_file: {failure.error_file}",
                f"  traceback : {_indented(_traceback(failure))}",
            ]
        )


def _traceback(failure: ProcessFailure) -> str:
    """Return the call stack in its error file, or else its message."""
    if isinstance(failure.message, str):
        return failure.message
    extra = failure.message.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    return str(stack or failure.message.get("message") or json.dumps(failure.message))


def _indented(text: str) -> str:
    return "\n".join(line if number == 0 else f"    {line}" for number, line in enumerate(text.rstrip().splitlines()))


def record(fn: F, error_handler: ErrorHandler | None = None) -> F:
    """Decorate a worker's main function: an exception that leaves it is also written to its error file.

    SystemExit with 0 returns None; other exits and Ctrl-C pass unrecorded. For a ChildFailedError, the error file of
    the root cause is copied.

    Args:
        fn: the function; its return value is returned.
        error_handler: writes the record; None for a new `ErrorHandler`.
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None
            raise
        except KeyboardInterrupt:
            raise
        except ChildFailedError as error:
            _copy_root_cause(handler, error)
            raise
        except BaseException as error:
            handler.record_exception(error)
            raise

    return wrapper  # type: ignore[return-value]  # the same signature


def _copy_root_cause(handler: ErrorHandler, error: ChildFailedError) -> None:
    rank, failure = error.get_first_failure()
    if failure.error_file == NOT_AVAILABLE:
        logger.info("rank %s, pid %s, exit code %s left no error file to copy", rank, failure.pid, failure.exitcode)
        return
    try:
        handler.dump_error_file(failure.error_file, failure.exitcode)
    except (OSError, ValueError) as problem:
        logger.warning("cannot copy the error file of rank %s, %s: %s", rank, failure.error_file, problem)
