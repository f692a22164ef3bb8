"""The port of rank 0: chosen before the round closes, held until its workers start, and reserved for their time.

A held port is a bound socket that does not listen. Candidates are outside of the ephemeral range, if there is room. The
kernel uses that range for outgoing connections and `bind(0)`, so a port in it may be taken by accident.

Between the agent's release and the worker's own bind no socket holds the port. So each chosen port also has a
reservation, which keeps other agents and launches off until `close`. It is an abstract Unix socket that is named after
the port. Such names belong to a network namespace, as ports do.
"""

import errno
import random
import socket
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from elasticjob_agent.supervisor import fd_registry

_LOWEST = 20000
_HIGHEST = 65535
_MAX_TRIES = 200
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL = (32768, 60999)
_ALL = ""
"""All addresses of this host, IPv4 and IPv6."""

PickPort = Callable[[int, int], int]
"""A function that picks a number from the lowest to the highest, both included."""
pick_random: PickPort = random.randint


class ReservedPort:
    """One port at a time; if the object is garbage-collected, the port is free again."""

    def __init__(self, address: str = _ALL, pick: PickPort = pick_random) -> None:
        """`address` is the one that rank 0 listens on; by default all addresses of this host, IPv4 and IPv6."""
        self._address = address
        self._pick = pick
        self._sockets: list[socket.socket] = []
        """The port's own socket, as long as it is held, and after it the reservation."""
        weakref.finalize(self, _close, self._sockets)

    def acquire(self) -> int:
        """Hold a new port, give the previous one up, and return the number of the new one. Raises OSError."""
        number, fresh = self._reserve_any()
        self.close()
        self._sockets.extend(fresh)
        return number

    def release(self) -> None:
        """Unbind the port for the worker that is about to bind it; the reservation stays. Idempotent."""
        if self._sockets and self._sockets[0].fileno() >= 0:
            # A fork for another launch may have a copy that it has not closed yet. The option belongs to the socket,
            # not to the descriptor. So rank 0 gets the port all the same, if it sets this option as servers do.
            self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets[0].close()

    def close(self) -> None:
        """Give up the port and its reservation. Idempotent."""
        _close(self._sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reserve_any(self) -> tuple[int, list[socket.socket]]:
        """Return a port's number, and its socket with the reservation."""
        for candidate in candidates(ephemeral_range(), self._pick):
            with suppress(OSError):
                return _reserve(self._address, candidate)
        with suppress(OSError):
            return _reserve(self._address, 0)
        return _reserve(_ALL, 0)  # the address does not belong to this host: NAT translates it


class FixedPort(ReservedPort):
    """The same port in every round (`--rdzv-backend static`).

    It has no reservation: giving two runs different ports is up to the user. If it cannot be bound now, the worker's
    own bind fails and reports it.
    """

    def __init__(self, address: str, number: int) -> None:
        super().__init__(address)
        self._number = number

    def acquire(self) -> int:
        """Hold the port if it is free, and return its number."""
        self.close()
        with suppress(OSError):  # not an address of this host, or in use
            # With SO_REUSEADDR: closed connections of the last round may still be in TIME_WAIT.
            self._sockets.append(_bind(self._address, self._number, reuse=True))
        return self._number


def free_port() -> int:
    """Return a port that is free for TCP on all interfaces now; it is not reserved afterwards.

    Raises:
        OSError: there is none, or this host has no TCP.
    """
    with ReservedPort() as port:
        return port.acquire()


def is_taken(number: int) -> bool:
    """Whether rank 0 cannot bind this port on all addresses: another socket listens on it or holds it."""
    try:
        with _bind(_ALL, number, reuse=True) as probe:
            probe.listen()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def candidates(ephemeral: tuple[int, int], pick: PickPort) -> Iterable[int]:
    """Return ports to try outside of `ephemeral`: below it if possible, else above it; none if there is no room."""
    first, last = ephemeral
    low, high = (_LOWEST, first - 1) if first > _LOWEST else (last + 1, _HIGHEST)
    return (pick(low, high) for _ in range(_MAX_TRIES if low <= high else 0))


def ephemeral_range(file: Path = _RANGE_FILE) -> tuple[int, int]:
    """Return the first and the last port that the kernel assigns by itself."""
    try:
        first, last = file.read_text().split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _DEFAULT_EPHEMERAL


def _reserve(address: str, candidate: int) -> tuple[int, list[socket.socket]]:
    """Return the port's number, and its socket with the reservation; 0: the kernel chooses. Raises OSError."""
    # No SO_REUSEADDR: two sockets that have it and do not listen can both be bound to one port.
    held = _bind(address, candidate)
    try:
        number: int = held.getsockname()[1]
        return number, [held, *_reservation(number, is_required=candidate != 0)]
    except OSError:
        held.close()
        raise


def _reservation(number: int, *, is_required: bool) -> list[socket.socket]:
    """Return the reservation of this port. Raises OSError if it is required and another process has it."""
    # A user of the host can reserve all ports, and must not stop other users by it: the last resort requires none.
    reservation = _cloexec_socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0elasticjob-port-{number}")
    except OSError:
        reservation.close()
        if is_required:
            raise
        return []
    return [reservation]


def _bind(address: str, number: int, *, reuse: bool = False) -> socket.socket:
    """Return a socket that holds this port and does not listen; 0: the kernel chooses. Raises OSError."""
    if address:
        return _bind_one(socket.AF_INET6 if ":" in address else socket.AF_INET, address, number, reuse=reuse)
    try:
        return _bind_one(socket.AF_INET6, "::", number, reuse=reuse)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
    return _bind_one(socket.AF_INET, "", number, reuse=reuse)  # this host has no IPv6


def _bind_one(family: socket.AddressFamily, address: str, number: int, *, reuse: bool) -> socket.socket:
    made = _cloexec_socket(family, socket.SOCK_STREAM)
    try:
        if reuse:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # all addresses includes those of IPv4
        made.bind((address, number))
    except OSError:
        made.close()
        raise
    return made


def _cloexec_socket(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """Return a socket that no process started by this one inherits.

    A fork for another launch would copy the socket, and rank 0 could not bind the port after its release.
    """
    made = socket.socket(family, kind)
    fd_registry.register_object(made)
    return made


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()
    sockets.clear()
