"""`elasticjob-agent`: the process that a pod, or a person, starts. Here only what must come before anything heavy."""

import os
import sys

from elasticjob_agent.pid_one import become_init_if_first


def main() -> None:
    """Run, and exit with the code of the table."""
    become_init_if_first()
    from elasticjob_agent.command import run  # noqa: PLC0415  # after the fork: an init needs none of it in memory

    sys.exit(run(sys.argv[1:], os.environ))


if __name__ == "__main__":
    main()
