"""The port that rank 0 will listen on: chosen before the round closes, held until its workers start.

It is held by a bound socket that does not listen, with SO_REUSEADDR. So it can still be checked whether another process
*listens* there. Its reservation socket (`net.ports`) keeps other agents and launches off, also after `release`. If the
object is garbage-collected, both sockets are closed.
"""

import errno
import socket
import weakref
from contextlib import suppress

from elasticjob_agent.net.ports import (
    PickPort,
    candidates,
    cloexec_socket,
    ephemeral_range,
    pick_random,
    reserve,
    reserve_or_none,
)


class MasterPort:
    """One port at a time, on `address`."""

    def __init__(self, address: str, choose: PickPort = pick_random) -> None:
        """`choose(low, high)` returns a number from low to high, both included."""
        self._address = address
        self._choose = choose
        self._socket: list[socket.socket] = []
        """The port's own socket, as long as it is held, and after it the reservation socket."""
        weakref.finalize(self, _close, self._socket)

    def acquire(self) -> int:
        """Hold a new port, give the previous one up, and return the number of the new one."""
        number, fresh = self._pick()
        self.close()
        self._socket.extend(fresh)
        return number

    def release(self) -> None:
        """Unbind the port for the worker that is about to bind it; the reservation stays. Idempotent."""
        if self._socket:
            self._socket[0].close()

    def close(self) -> None:
        """Give up the port and its reservation. Idempotent."""
        _close(self._socket)

    def is_taken(self, port: int) -> bool:
        """Whether a process listens on this port at any address, so that rank 0 cannot bind it on all addresses."""
        family, anywhere = (socket.AF_INET6, "::") if ":" in self._address else (socket.AF_INET, "")
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((anywhere, port))
                probe.listen()
            except OSError as error:
                return error.errno == errno.EADDRINUSE
        return False

    def _pick(self) -> tuple[int, list[socket.socket]]:
        for candidate in candidates(ephemeral_range(), self._choose):
            with suppress(OSError):
                return self._reserve(self._address, candidate)
        for address in (self._address, ""):
            with suppress(OSError):
                return self._reserve(address, 0, last_resort=True)
        # The address does not belong to this host (NAT translates it).
        return self._reserve("::", 0, last_resort=True)

    def _reserve(self, address: str, candidate: int, *, last_resort: bool = False) -> tuple[int, list[socket.socket]]:
        """Return the port's number, and its socket with the reservation; 0: the kernel chooses. Raises OSError."""
        held = bind(address, candidate)
        try:
            number: int = held.getsockname()[1]
            return number, [held, *(reserve_or_none(number) if last_resort else [reserve(number)])]
        except OSError:
            held.close()
            raise


def bind(address: str, number: int) -> socket.socket:
    """Return a socket that holds this port and does not listen; 0: the kernel chooses. Raises OSError."""
    made = cloexec_socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address, number))
    except OSError:
        made.close()
        raise
    return made


def _close(held: list[socket.socket]) -> None:
    for each in held:
        each.close()
    held.clear()
