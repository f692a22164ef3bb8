"""Sockets to the API server that notice when the other end is gone.

A watch without events looks like one whose connection is cut: a load balancer that forgot it, a dead machine. By itself
the kernel would ask after two hours. So it asks after 15 s of silence, and half a minute ends a dead connection.
"""

import socket
from typing import Any

import aiohttp

_OPTIONS_S = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5}
_PROBES = 3
_UNHEARD_MS = 30_000
"""Data that is not acknowledged for so long ends the connection as well."""


def _open(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_OPTIONS_S, "TCP_KEEPCNT": _PROBES, "TCP_USER_TIMEOUT": _UNHEARD_MS}.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def connector(**options: Any) -> aiohttp.TCPConnector:
    """Aiohttp's own with such sockets; `options` are its own, too."""
    return aiohttp.TCPConnector(socket_factory=_open, **options)
