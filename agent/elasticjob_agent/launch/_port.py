"""A port for rank 0: chosen where nothing takes it by accident, and reserved for one launch.

Held as a bound socket that does not listen until `release`, which is called just before the first worker starts. From
then until `close` its mark (`port_choice`) still keeps every other launch and agent of this library away.
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
    """A port that is free for TCP on all interfaces at this moment; nobody promises for later.

    Raises:
        OSError: there is none, or this host has no TCP.
    """
    with ReservedPort() as held:
        return held.number


class ReservedPort:
    """A port that nobody else gets; a context manager that lets go of everything."""

    def __init__(self, choose: PickPort = pick_random) -> None:
        """Take one; `choose(low, high)` gives a number from low to high, both included."""
        self._sockets: list[socket.socket] = []
        self.number = self._pick(choose)

    def release(self) -> None:
        """Let rank 0 bind it; other launches of this library still keep away. Idempotent."""
        if self._sockets and self._sockets[0].fileno() >= 0:
            # A fork for another launch may have copied it and not yet closed its copy. The option is the socket's, not
            # the descriptor's: rank 0, if it binds with it as servers do, gets the port all the same.
            self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets[0].close()

    def close(self) -> None:
        """Let go. Idempotent."""
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
        return self._reserve(0, last_resort=True)  # everything else is taken: one of the kernel's own

    def _reserve(self, candidate: int, *, last_resort: bool = False) -> int:
        port = _bind_all(candidate)
        try:
            number: int = port.getsockname()[1]
            marks = reserve_or_none(number) if last_resort else [reserve(number)]
        except OSError:
            port.close()
            raise
        self._sockets = [port, *marks]
        return number


class FixedPort:
    """A port that the caller has chosen and answers for."""

    def __init__(self, number: int) -> None:
        self.number = number

    def release(self) -> None:
        """It was never held."""


@contextmanager
def rank_0_port(given: int | None) -> Iterator[ReservedPort | FixedPort]:
    """This port or, if it is None, a held one."""
    if given is not None:
        yield FixedPort(given)
        return
    with ReservedPort() as held:
        yield held


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
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # on all interfaces means IPv4 as well
        bound.bind((address, number))
    except OSError:
        bound.close()
        raise
    return bound


def _lacks_ipv6() -> bool:
    """This host cannot bind an IPv6 address at all, whatever the port."""
    try:
        _bind(socket.AF_INET6, "::", 0).close()
    except OSError:
        return True
    return False
