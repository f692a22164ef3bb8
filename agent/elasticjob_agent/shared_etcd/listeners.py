"""Servers that listen at a port of this machine, and the users to which they belong.

Every user may listen on a port of the loopback interface. So a server there is trusted only if it belongs to this user
or to root.
"""

import errno
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_STATE_LISTEN = "0A"


def is_taken(port: int) -> bool:
    """Whether any process has bound this port of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
        return False


def is_trusted(port: int) -> bool:
    """Whether there are listeners at this port, on any address, and all belong to this user or to root."""
    uids = owners(port)
    return bool(uids) and uids <= {os.geteuid(), 0}


def owners(port: int) -> set[int]:
    """Return the uids of the listeners at this port."""
    return set(listeners(port, _rows()))


def listeners(port: int, rows: Iterable[str]) -> Iterator[int]:
    """Return the uid of each listener at this port, from `rows` of the kernel's tables."""
    for row in rows:
        _, local, _, state, _, _, _, uid = row.split()[:8]
        if state == _STATE_LISTEN and int(local.rpartition(":")[2], 16) == port:
            yield int(uid)


def _rows() -> Iterator[str]:
    for table in _TABLES:
        if table.exists():  # not every machine has IPv6
            yield from table.read_text().splitlines()[1:]
