"""MASTER_PORT as the user gave it (`--rdzv-backend static`): the same in every round.

Held like a chosen one while no worker runs; if it cannot be had just now, the worker's own bind will say so. It has no
mark: two runs that were given one port are the user's to tell apart.
"""

from contextlib import suppress

from elasticjob_agent.net.master_port import MasterPort, bind


class FixedPort(MasterPort):
    """One port for ever, on `address`."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address)
        self._number = (address, port)

    def acquire(self) -> int:
        """Hold the port if it is free; its number."""
        self.close()
        address, port = self._number
        with suppress(OSError):  # not an address of this host, or in use: the worker finds out
            self._socket.append(bind(address, port))
        return port
