"""Candidates for the port of rank 0, and reservations that keep agents from choosing the same port.

Candidates are outside of the ephemeral range, if there is room. The kernel uses that range for outgoing connections and
`bind(0)`, so a port in it may be taken by accident.

A bound socket alone does not reserve a port. Two sockets with SO_REUSEADDR may be bound to one port. And between
the agent's release and the worker's own bind no socket holds the port. So each chosen port also has a reservation: an
abstract Unix socket that is named after the port. Such names belong to a network namespace, as ports do.
"""

import random
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from elasticjob_agent.supervisor import fd_registry

_LOWEST = 20000
_HIGHEST = 65535
_MAX_TRIES = 200
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL = (32768, 60999)

PickPort = Callable[[int, int], int]
"""A function that picks a number from the lowest to the highest, both included."""
pick_random: PickPort = random.randint


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


def reserve(number: int) -> socket.socket:
    """Return the reservation socket of this port; closing it ends the reservation.

    Raises:
        OSError: another process has reserved the port.
    """
    reservation = cloexec_socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0elasticjob-port-{number}")
    except OSError:
        reservation.close()
        raise
    return reservation


def reserve_or_none(number: int) -> list[socket.socket]:
    """Return the reservation socket of this port in a list; an empty list if the reservation fails.

    Only for the last resort: a user of the host can reserve all ports, and must not stop other users by it.
    """
    try:
        return [reserve(number)]
    except OSError:
        return []


def cloexec_socket(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """Return a socket that no process started by this one inherits.

    A fork for another launch would copy the socket, and rank 0 could not bind the port after its release.
    """
    made = socket.socket(family, kind)
    fd_registry.register_object(made)
    return made
