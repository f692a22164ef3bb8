"""Sockets to the API server that detect a dead peer.

A watch without events looks like a watch on a dead connection. The peer's machine may have failed, or a load balancer
may have dropped the connection. By default the kernel sends its first probe after two hours. These sockets probe after
15 s without data, and a dead connection ends after 30 s.
"""

import asyncio
import contextlib
import socket
import weakref
from typing import Any

import aiohttp

_OPTIONS_S = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5}
_PROBES = 3
_USER_TIMEOUT_MS = 30_000
"""A connection also ends if sent data is not acknowledged for this time."""


_TURNS_TO_END = 20
"""Turns of the event loop within which a transport notices that its socket was shut down, and closes it."""


class SocketFactory:
    """Opens such sockets, and ends those that no transport closes."""

    def __init__(self) -> None:
        self._opened = weakref.WeakSet[socket.socket]()

    def __call__(self, address: Any) -> socket.socket:
        """Return a new socket for an address that was resolved."""
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {**_OPTIONS_S, "TCP_KEEPCNT": _PROBES, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}.items():
            if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
        self._opened.add(opened)
        return opened

    async def close(self) -> None:
        """End the connections that are still open.

        asyncio loses a connection that is cancelled between its creation and the first turn of TLS (Python 3.11).
        """
        for left in self._left():
            with contextlib.suppress(OSError):  # not connected yet
                left.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_TO_END):
            if not self._left():
                return
            await asyncio.sleep(0)

    def _left(self) -> list[socket.socket]:
        return [opened for opened in self._opened if opened.fileno() >= 0]


def connector(factory: SocketFactory, **options: Any) -> aiohttp.TCPConnector:
    """Return aiohttp's connector with sockets of this factory; `options` are aiohttp's."""
    return aiohttp.TCPConnector(socket_factory=factory, **options)
