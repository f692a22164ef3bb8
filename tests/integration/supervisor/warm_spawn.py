"""Start workers from zygotes, one zygote for each command; the commands must run Python with its module `site`."""

from collections.abc import Sequence
from dataclasses import replace

from elasticjob_agent.supervisor import Child, Command, Inherit, Null, Supervisor
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from elasticjob_agent.warm_start.changed_variables import ChangedVariables
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.zygote import Zygote


async def spawn_warm(supervisor: Supervisor, commands: Sequence[Command]) -> list[Child]:
    """Start all of these from zygotes, which have ended when it returns."""
    # One after the other: the end of a zygote kills orphans, and so a worker that another one has forked just now.
    workers = [(await fork_ahead(supervisor, command, 1))[0] for command in commands]
    children = await supervisor.spawn(commands, workers)
    assert all(child.is_warm for child in children)
    return children


async def fork_ahead(supervisor: Supervisor, command: Command, count: int) -> list[PreforkedWorker]:
    """Return workers that wait for commands with the arguments of this one."""
    recording, changed = NodeRecording(1), ChangedVariables()
    recording.close()
    silent = replace(command, stdout=Null(), stderr=Inherit())  # the pipe of a test has no folder for another file
    zygote = await Zygote.start(
        supervisor,
        silent,
        imports=recording,
        variables={},
        changed=changed,
        files={},
        denied=(),
        varying=(),
        output=lambda _: None,
    )
    changed.close()
    try:
        await zygote.read_report()
        return await zygote.fork(count)
    finally:
        await zygote.close()
