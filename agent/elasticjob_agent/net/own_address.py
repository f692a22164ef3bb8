"""Where others reach this host, as far as it can know: the address from which it reaches etcd."""

import socket

_UNIX = "unix:"
_LOOPBACK = "127.0.0.1"


def own_address(target: str) -> str:
    """The address from which this host reaches `target` (HOST:PORT); nothing is sent.

    Of a Unix socket it is the loopback address: all who meet there are on this machine. Raises socket.gaierror when
    the host is not known, another OSError when there is no way to it.
    """
    if target.startswith(_UNIX):
        return _LOOPBACK
    host, _, port = target.rpartition(":")
    family, kind, protocol, _, there = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])
