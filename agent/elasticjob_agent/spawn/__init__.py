"""Functions in processes of their own: `torch.multiprocessing.spawn`'s names and behaviour, without torch.

    context = start_processes(train, args=(config,), nprocs=8, join=False)
    while not context.join():        # raises the exception of the first process that fails
        pass

Every process leads a session of its own and dies with its parent. Everything that it has started ends with it.
"""

from elasticjob_agent.spawn.context import ProcessContext, SpawnContext
from elasticjob_agent.spawn.errors import ProcessException, ProcessExitedException, ProcessRaisedException
from elasticjob_agent.spawn.start import ENV_VAR_PARALLEL_START, spawn, start_processes

__all__ = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]
