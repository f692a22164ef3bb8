"""Which ports are worth trying for rank 0, and the mark by which those who choose one keep off each other's.

Outside the range from which the kernel serves outgoing connections and `bind(0)`, if there is room, so that nothing
takes one by accident. A bound socket alone does not reserve a port: who holds one with SO_REUSEADDR does not exclude
another who does, and in the moment between letting go and the worker's own bind nobody holds it. So each choice also
has an abstract unix socket that is named for the port; such names belong to a network namespace exactly as ports do.
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
"""From the lowest and the highest number to one of them, both included."""
pick_random: PickPort = random.randint


def candidates(ephemeral: tuple[int, int], pick: PickPort) -> Iterable[int]:
    """Numbers to try: outside this range, below it if possible, else above; none if there is no room."""
    first, last = ephemeral
    low, high = (_LOWEST, first - 1) if first > _LOWEST else (last + 1, _HIGHEST)
    return (pick(low, high) for _ in range(_MAX_TRIES if low <= high else 0))


def ephemeral_range(file: Path = _RANGE_FILE) -> tuple[int, int]:
    """The ports that the kernel gives out by itself: the first and the last."""
    try:
        first, last = file.read_text().split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _DEFAULT_EPHEMERAL


def reserve(number: int) -> socket.socket:
    """The mark of this port, until it is closed; raises OSError when another choice has it."""
    mark = cloexec_socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mark.bind(f"\0elasticjob-port-{number}")
    except OSError:
        mark.close()
        raise
    return mark


def reserve_or_none(number: int) -> list[socket.socket]:
    """The mark of this port, in a list that is empty where it cannot be had.

    For the last resort alone: any user of the host can take all marks, and must not stop others by that.
    """
    try:
        return [reserve(number)]
    except OSError:
        return []


def cloexec_socket(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """A socket that no process started here ever has.

    A fork for another launch would copy it, and would keep the port from rank 0 after its release.
    """
    made = socket.socket(family, kind)
    fd_registry.register_object(made)
    return made
