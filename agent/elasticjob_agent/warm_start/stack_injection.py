"""Which workers register the signal for their stacks before their script begins.

All that start cold do so, if their command is Python and loads `site`. Any other program would only pass our variables
on to its children. A worker that starts warm registers without an injection.
"""

from pathlib import PurePath

from elasticjob_agent.supervisor import Command
from elasticjob_agent.warm_start.eligibility import skipping_option
from elasticjob_agent.warm_start.injection import register_stacks
from elasticjob_agent.warm_start.program import find_program


def with_stacks(command: Command) -> Command:
    """Return the command, changed so that its interpreter registers the signal; unchanged if it would not do so."""
    program = find_program(command.argv, command.env, command.cwd)
    is_python = PurePath(program.interpreter).name.startswith("python")
    return register_stacks(command) if is_python and not skipping_option(command.argv[1:]) else command
