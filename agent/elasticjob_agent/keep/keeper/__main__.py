"""The keeper process: `python -m elasticjob_agent.keep.keeper <socket> <pid of the agent> [<listening socket>]`."""

import contextlib
import logging
import os
import resource
import socket
import sys

from elasticjob_agent.keep.keeper.keeper import Keeper
from elasticjob_agent.keep.parent_process import end_with
from elasticjob_agent.keep.volume.errors import ResourcesShortError

log = logging.getLogger(__name__)


def main(fd: int, agent: int, listener: int | None = None) -> None:
    """Serve the agent with this process id on the inherited socket `fd`, and peers on `listener`, until it ends."""
    end_with(agent)
    allow_files()
    try:
        Keeper(socket.socket(fileno=fd), None if listener is None else socket.socket(fileno=listener)).run()
    except ResourcesShortError as error:
        log.error("this keeper ends, and its agent starts another one: %s", error)  # noqa: TRY400 -- no fault of it
        os._exit(1)
    # The agent reaps this process when the socket closes. So it stays open until nothing is left to do.
    os._exit(0)


def allow_files() -> None:
    """Allow as many open files as the system does: each peer has a connection, and a part many files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse what they call unlimited
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
