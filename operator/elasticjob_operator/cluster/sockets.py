"""Sockets to the API server that detect a dead peer.

A watch without events looks like a watch on a dead connection. The peer's machine may have failed, or a load balancer
may have dropped the connection. By default the kernel sends its first probe after two hours. These sockets probe after
15 s without data, and a dead connection ends after 30 s.
"""

import socket
from typing import Any

import aiohttp

_OPTIONS_S = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5}
_PROBES = 3
_USER_TIMEOUT_MS = 30_000
"""A connection also ends if sent data is not acknowledged for this time."""


def _open(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_OPTIONS_S, "TCP_KEEPCNT": _PROBES, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def connector(**options: Any) -> aiohttp.TCPConnector:
    """Return aiohttp's connector with such sockets; `options` are aiohttp's."""
    return aiohttp.TCPConnector(socket_factory=_open, **options)
