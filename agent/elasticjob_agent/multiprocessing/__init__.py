"""The process layer: n copies of a function or command, with their output, errors and ends.

    context = start_processes(name="trainer", entrypoint=train, args={0: (1,), 1: (2,)}, envs=None, log_dir="/logs/1")
    result = context.wait()

Names, signatures and defaults are those of torch.distributed.elastic.multiprocessing; nothing of torch is needed.

Each public name is loaded at its first use: a worker that only imports `errors.record` does not load the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elasticjob_agent.multiprocessing._start import start_processes
    from elasticjob_agent.multiprocessing.api import (
        DefaultLogsSpecs,
        LogsDest,
        LogsSpecs,
        MultiprocessContext,
        PContext,
        ProcessFailure,
        RunProcsResult,
        Std,
        SubprocessContext,
        to_map,
    )
    from elasticjob_agent.multiprocessing.signals import SignalException

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]


_MODULE_OF = {"SignalException": "signals", "start_processes": "_start"}
_MODULES = {"api", "errors", "redirects", "_start", "subprocess_handler", "tail_log"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULE_OF.get(name, 'api')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
