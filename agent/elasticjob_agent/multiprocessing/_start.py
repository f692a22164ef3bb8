"""`start_processes`: it turns arguments in either of two forms into a context that runs.

Everything that can be checked is checked before anything is created. After any error, everything that has begun is
undone.
"""

import os
from collections.abc import Callable
from os import PathLike
from typing import Any

from elasticjob_agent.multiprocessing.api import (
    MultiprocessContext,
    PContext,
    SubprocessContext,
    _validate_full_rank,
)
from elasticjob_agent.multiprocessing.logs import FlatLogsSpecs, LogsSpecs
from elasticjob_agent.multiprocessing.std import Std
from elasticjob_agent.supervisor import START_METHODS

_WITH_SPECS = (
    "logs_specs",
    "log_line_prefixes",
    "start_method",
    "numa_options",
    "duplicate_stdout_filters",
    "duplicate_stderr_filters",
)
_WITH_LOG_DIR = ("log_dir", "start_method", "redirects", "tee")


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, Any],
    envs: dict[int, dict[str, Any]] | None = None,
    *more: Any,
    **options: Any,
) -> PContext:
    """Start n copies of a function or command, each with its own arguments and variables, and return their context.

    There are two forms: `…, logs_specs, log_line_prefixes=None, start_method="spawn", numa_options=None,
    duplicate_stdout_filters=None, duplicate_stderr_filters=None`, or `…, log_dir, start_method="spawn",
    redirects=Std.NONE, tee=Std.NONE`. The second form accepts the options of the first by keyword.

    Args:
        name: short label, the header of teed lines.
        entrypoint: a function, or a command, which is looked up on the worker's PATH.
        args: by local rank; there is one worker for each of the keys 0 to n-1. A bare string is one argument.
        envs: variables by local rank, added to our own environment; None for none.
        more: logs_specs (see `LogsSpecs`), or log_dir (an existing empty folder), and the arguments after it.
        options: the same by keyword; `numa_options` (`multiprocessing.numa`) selects the processors of each worker.

    Raises:
        TypeError: the forms are mixed, neither is given, or the entrypoint is neither function nor command.
        FileNotFoundError: log_dir, or the command, does not exist.
        NotADirectoryError: log_dir is a file.
        RuntimeError: log_dir is not empty, or the keys are not 0 to n-1.
        PermissionError: the command cannot be executed.
        ValueError: an unknown start method, or an argument that no process can get.
        NotImplementedError: `numa_options` cannot be applied here, and do not allow a start without them.
        OSError: a worker could not be started for another reason; then none is running.
    """
    given = _bind(more, options)
    specs = _specs(given)
    if not callable(entrypoint) and not isinstance(entrypoint, str):
        raise TypeError(f"entrypoint must be a function or a command, not {type(entrypoint).__name__}")
    if isinstance(specs, FlatLogsSpecs):
        specs.check()
    _validate_full_rank(args, len(args), "args")
    envs = {rank: {} for rank in args} if envs is None else envs
    _validate_full_rank(envs, len(args), "envs")
    return _start_context(_context(name, entrypoint, args, envs, specs, given))


def _bind(more: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return all options by name."""
    with_log_dir = "log_dir" in options or (more and isinstance(more[0], str | PathLike))
    names = _WITH_LOG_DIR if with_log_dir else _WITH_SPECS
    if len(more) > len(names):
        raise TypeError(f"start_processes takes at most {4 + len(names)} positional arguments: … {', '.join(names)}")
    given = dict(zip(names, more, strict=False))
    for key, value in options.items():
        if key in given:
            raise TypeError(f"start_processes got two values for {key}")
        if key not in _WITH_SPECS + _WITH_LOG_DIR:
            raise TypeError(f"start_processes got an unknown argument {key!r}")
        given[key] = value
    return given


def _specs(given: dict[str, Any]) -> LogsSpecs:
    specs, log_dir = given.get("logs_specs"), given.get("log_dir")
    if specs is not None:
        if mixed := sorted({"log_dir", "redirects", "tee"} & set(given)):
            raise TypeError(f"{', '.join(mixed)} cannot be given together with logs_specs, which sets the destinations")
        if not isinstance(specs, LogsSpecs):
            raise TypeError(f"logs_specs must be a LogsSpecs, not {type(specs).__name__}")
        return specs
    if log_dir is None:
        raise TypeError("start_processes needs logs_specs or log_dir, the destination of the workers' output")
    return FlatLogsSpecs(os.fspath(log_dir), given.get("redirects", Std.NONE), given.get("tee", Std.NONE))


def _context(  # noqa: PLR0917 - private
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, Any],
    envs: dict[int, dict[str, Any]],
    specs: LogsSpecs,
    given: dict[str, Any],
) -> PContext:
    common: dict[str, Any] = {
        key: given.get(key)
        for key in ("log_line_prefixes", "numa_options", "duplicate_stdout_filters", "duplicate_stderr_filters")
    }
    if isinstance(entrypoint, str):
        return SubprocessContext(name, entrypoint, args, envs, specs, **common)
    method = given.get("start_method", START_METHODS[0])
    return MultiprocessContext(name, entrypoint, args, envs, method, specs, **common)


def _start_context(context: PContext) -> PContext:
    try:
        context.start()
    except BaseException:
        context.close(timeout=0)
        raise
    return context
