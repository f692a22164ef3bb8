"""MASTER_PORT as the user gave it (`--rdzv-backend static`): the same in every round.

Held like a chosen one while no worker runs; if it cannot be had just now, the worker's own bind will say so. It has no
mark: two runs that were given one port are the user's to tell apart.
"""

from contextlib import suppress

from elasticjob_agent.net.master_port import MasterPort, bound


class GivenPort(MasterPort):
    """One port for ever, on `address`."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address)
        self._given = (address, port)

    def renew(self) -> int:
        """Hold the port if it is free; its number."""
        self.close()
        address, port = self._given
        with suppress(OSError):  # not an address of this host, or in use: the worker finds out
            self._held.append(bound(address, port))
        return port
