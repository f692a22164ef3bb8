"""The latch at which a worker waits before its command begins.

It is closed, and opens once. The agent opens it itself, so that a fork server that hangs delays no command.
"""

import os

from elasticjob_agent.supervisor import fd_registry


class Latch:
    """An eventfd that the worker reads."""

    def __init__(self) -> None:
        self.fd = fd_registry.register(os.eventfd(0))
        """The agent's descriptor; the worker gets a copy."""

    def open(self) -> None:
        """Let the worker go on."""
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)
            self.close()

    def close(self) -> None:
        """Close the agent's descriptor; a worker that still waits does so until it is killed."""
        if self.fd >= 0:
            fd_registry.close(self.fd)
            self.fd = -1
