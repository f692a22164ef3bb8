"""The process layer: n copies of a function or command, with their output, errors and ends taken care of.

    context = start_processes(name="trainer", entrypoint=train, args={0: (1,), 1: (2,)}, envs=None, log_dir="/logs/1")
    result = context.wait()

Names, signatures and defaults are those of torch.distributed.elastic.multiprocessing; nothing of torch is needed.
"""

from elasticjob_agent.multiprocessing.api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    MultiprocessContext,
    PContext,
    ProcessFailure,
    RunProcsResult,
    SignalException,
    Std,
    SubprocessContext,
    to_map,
)
from elasticjob_agent.multiprocessing.starting import start_processes

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
