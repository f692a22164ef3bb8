"""Process trees: start workers, report their ends at once, and end everything that they started.

    supervisor = await Supervisor.create()
    children = await supervisor.spawn([Command(name="rank 0", argv=("python", "train.py"), env=env, …)])
    print((await children[0].exit).sentence)
    await supervisor.stop(children, grace_s=5)
    await supervisor.close()

Every child must be stopped or swept once, also one that has ended. Only then is it certain that nothing of its tree is
left.

The modules for function workers are imported at their first use. They need multiprocessing; an agent that runs commands
does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elasticjob_agent.supervisor.background_loop import Background, background
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.console import Console
from elasticjob_agent.supervisor.errors import (
    CommandNotExecutable,
    CommandNotFound,
    ForkServerLost,
    StartError,
    SupervisorError,
)
from elasticjob_agent.supervisor.process_types import Command, Exit, FileSink, Inherit, LineSink, Null, Sink
from elasticjob_agent.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from elasticjob_agent.supervisor.function_workers import (
        START_METHODS,
        Function,
        FunctionChild,
        resolve_method,
        spawn_functions,
        stop_functions,
    )
    from elasticjob_agent.supervisor.result_channel import FunctionOutcome

__all__ = [
    "START_METHODS",
    "Background",
    "Child",
    "Command",
    "CommandNotExecutable",
    "CommandNotFound",
    "Console",
    "Exit",
    "FileSink",
    "ForkServerLost",
    "Function",
    "FunctionChild",
    "FunctionOutcome",
    "Inherit",
    "LineSink",
    "Null",
    "Sink",
    "StartError",
    "Supervisor",
    "SupervisorError",
    "background",
    "resolve_method",
    "spawn_functions",
    "stop_functions",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.function_workers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
