"""The address at which other hosts probably reach this one: the address from which it reaches etcd."""

import socket

_UNIX = "unix:"
_LOOPBACK = "127.0.0.1"


def own_address(target: str) -> str:
    """Return the address from which this host reaches `target` (HOST:PORT); no packet is sent.

    For a Unix socket it is the loopback address, because all its clients are on this machine.

    Raises:
        socket.gaierror: the host name cannot be resolved.
        OSError: there is no route to the host.
    """
    if target.startswith(_UNIX):
        return _LOOPBACK
    host, _, port = target.rpartition(":")
    family, kind, protocol, _, there = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])
