"""A port for rank 0 that other programs rarely take by accident, reserved for one launch.

It is held as a bound socket that does not listen, until `release`. That is called just before the first worker starts.
From then until `close`, reservations (`net.ports`) keep other launches and agents of this library off the port.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from elasticjob_agent.net.ports import (
    PickPort,
    candidates,
    cloexec_socket,
    ephemeral_range,
    pick_random,
    reserve,
    reserve_or_none,
)


def free_port() -> int:
    """Return a port that is free for TCP on all interfaces now; it is not reserved afterwards.

    Raises:
        OSError: there is none, or this host has no TCP.
    """
    with ReservedPort() as reserved:
        return reserved.number


class ReservedPort:
    """A reserved port; a context manager that releases everything."""

    def __init__(self, choose: PickPort = pick_random) -> None:
        """Reserve one; `choose(low, high)` returns a number from low to high, both included."""
        self._sockets: list[socket.socket] = []
        self.number = self._pick(choose)

    def release(self) -> None:
        """Let rank 0 bind it; other launches of this library still avoid it. Idempotent."""
        if self._sockets and self._sockets[0].fileno() >= 0:
            # A fork for another launch may have a copy that it has not closed yet. The option belongs to the socket,
            # not to the descriptor. So rank 0 gets the port all the same, if it sets this option as servers do.
            self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets[0].close()

    def close(self) -> None:
        """Release everything. Idempotent."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _pick(self, choose: PickPort) -> int:
        for candidate in candidates(ephemeral_range(), choose):
            with suppress(OSError):
                return self._reserve(candidate)
        return self._reserve(0, last_resort=True)  # all others are taken: let the kernel choose one

    def _reserve(self, candidate: int, *, last_resort: bool = False) -> int:
        port = _bind_all(candidate)
        try:
            number: int = port.getsockname()[1]
            reservations = reserve_or_none(number) if last_resort else [reserve(number)]
        except OSError:
            port.close()
            raise
        self._sockets = [port, *reservations]
        return number


class FixedPort:
    """A port that the caller has chosen; it is not reserved."""

    def __init__(self, number: int) -> None:
        self.number = number

    def release(self) -> None:
        """Do nothing: it was never reserved."""


@contextmanager
def rank_0_port(given: int | None) -> Iterator[ReservedPort | FixedPort]:
    """Return this port, or a reserved one if it is None."""
    if given is not None:
        yield FixedPort(given)
        return
    with ReservedPort() as reserved:
        yield reserved


def _bind_all(number: int) -> socket.socket:
    # No SO_REUSEADDR: two sockets that have it and do not listen can both be bound to one port.
    try:
        return _bind(socket.AF_INET6, "::", number)
    except OSError:
        if not _lacks_ipv6():
            raise
    return _bind(socket.AF_INET, "", number)


def _bind(family: socket.AddressFamily, address: str, number: int) -> socket.socket:
    bound = cloexec_socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # all interfaces includes IPv4
        bound.bind((address, number))
    except OSError:
        bound.close()
        raise
    return bound


def _lacks_ipv6() -> bool:
    """Return whether this host cannot bind an IPv6 address at all, whatever the port."""
    try:
        _bind(socket.AF_INET6, "::", 0).close()
    except OSError:
        return True
    return False
