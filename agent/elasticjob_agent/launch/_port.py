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
    Choose,
    at_random,
    candidates,
    ephemeral_range,
    inner_socket,
    mark_or_none,
    marked,
)


def free_port() -> int:
    """A port that is free for TCP on all interfaces at this moment; nobody promises for later.

    Raises:
        OSError: there is none, or this host has no TCP.
    """
    with HeldPort() as held:
        return held.number


class HeldPort:
    """A port that nobody else gets; a context manager that lets go of everything."""

    def __init__(self, choose: Choose = at_random) -> None:
        """Take one; `choose(low, high)` gives a number from low to high, both included."""
        self._held: list[socket.socket] = []
        self.number = self._take(choose)

    def release(self) -> None:
        """Let rank 0 bind it; other launches of this library still keep away. Idempotent."""
        if self._held and self._held[0].fileno() >= 0:
            # A fork for another launch may have copied it and not yet closed its copy. The option is the socket's, not
            # the descriptor's: rank 0, if it binds with it as servers do, gets the port all the same.
            self._held[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held[0].close()

    def close(self) -> None:
        """Let go. Idempotent."""
        for each in self._held:
            each.close()
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, choose: Choose) -> int:
        for candidate in candidates(ephemeral_range(), choose):
            with suppress(OSError):
                return self._hold(candidate)
        return self._hold(0, last_resort=True)  # everything else is taken: one of the kernel's own

    def _hold(self, candidate: int, *, last_resort: bool = False) -> int:
        port = _bound(candidate)
        try:
            number: int = port.getsockname()[1]
            marks = mark_or_none(number) if last_resort else [marked(number)]
        except OSError:
            port.close()
            raise
        self._held = [port, *marks]
        return number


class GivenPort:
    """A port that the caller has chosen and answers for."""

    def __init__(self, number: int) -> None:
        self.number = number

    def release(self) -> None:
        """It was never held."""


@contextmanager
def rank_0_port(given: int | None) -> Iterator[HeldPort | GivenPort]:
    """This port or, if it is None, a held one."""
    if given is not None:
        yield GivenPort(given)
        return
    with HeldPort() as held:
        yield held


def _bound(number: int) -> socket.socket:
    # No SO_REUSEADDR: two sockets that have it and do not listen can both be bound to one port.
    try:
        return _bound_to(socket.AF_INET6, "::", number)
    except OSError:
        if not _lacks_ipv6():
            raise
    return _bound_to(socket.AF_INET, "", number)


def _bound_to(family: socket.AddressFamily, address: str, number: int) -> socket.socket:
    bound = inner_socket(family, socket.SOCK_STREAM)
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
        _bound_to(socket.AF_INET6, "::", 0).close()
    except OSError:
        return True
    return False
