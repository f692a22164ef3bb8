"""MASTER_PORT as the user gave it (`--rdzv-backend static`): the same in every round.

Held like a chosen one while no worker runs; if it cannot be had just now, the worker's own bind will say so.
"""

import contextlib
import socket

from elasticjob_agent.master_port import MasterPort


class GivenPort(MasterPort):
    """One port for ever, on `address`."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address)
        self._given = (address, port)
        self._held: socket.socket | None = None

    def renew(self) -> int:
        """Hold the port if it is free; its number."""
        self.release()
        address, port = self._given
        candidate = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held = candidate
        with contextlib.suppress(OSError):  # not an address of this host, or in use: the worker finds out
            candidate.bind((address, port))
        return port

    def release(self) -> None:
        """Let go: the worker is about to bind it. Idempotent."""
        if self._held is not None:
            self._held.close()
            self._held = None
