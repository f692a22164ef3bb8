"""Process trees: starting workers, seeing them end at once, and ending all that they started.

    supervisor = await Supervisor.create()
    children = await supervisor.spawn([Command(name="rank 0", argv=("python", "train.py"), env=env, …)])
    print((await children[0].exit).sentence)
    await supervisor.stop(children, grace_s=5)
    await supervisor.close()

Every child is stopped or swept once, also one that has ended: only then is it certain that nothing of its tree is left.
"""

from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.console import Console
from elasticjob_agent.supervisor.errors import (
    CommandNotExecutable,
    CommandNotFound,
    StarterLost,
    StartError,
    SupervisorError,
)
from elasticjob_agent.supervisor.records import Command, Exit, Inherit, Lines, Null, Sink, ToFile
from elasticjob_agent.supervisor.supervisor import Supervisor

__all__ = [
    "Child",
    "Command",
    "CommandNotExecutable",
    "CommandNotFound",
    "Console",
    "Exit",
    "Inherit",
    "Lines",
    "Null",
    "Sink",
    "StartError",
    "StarterLost",
    "Supervisor",
    "SupervisorError",
    "ToFile",
]
