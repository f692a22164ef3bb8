"""MASTER_PORT from the user (`--rdzv-backend static`): the same in every round.

The agent holds it like a chosen port while no worker runs. If it cannot be bound now, the worker's own bind will fail
and report it. The port has no reservation socket: giving two runs different ports is up to the user.
"""

from contextlib import suppress

from elasticjob_agent.net.master_port import MasterPort, bind


class FixedPort(MasterPort):
    """The same port in every round, on `address`."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address)
        self._number = (address, port)

    def acquire(self) -> int:
        """Hold the port if it is free, and return its number."""
        self.close()
        address, port = self._number
        with suppress(OSError):  # not an address of this host, or in use: the worker's bind reports it
            self._socket.append(bind(address, port))
        return port
