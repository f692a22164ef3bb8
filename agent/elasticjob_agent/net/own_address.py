"""The addresses of this machine: the one at which other hosts probably reach it, and whether a host name is its own."""

import socket

from elasticjob_agent.errors import UsageError

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


def own_address_for_endpoint(target: str) -> str:
    """Return the address from which this host reaches `target`, the endpoint that a user gave.

    Raises:
        UsageError: the host name cannot be resolved, or the host cannot be reached.
    """
    try:
        return own_address(target)
    except socket.gaierror as error:
        raise UsageError(f"--rdzv-endpoint {target}: the host is unknown ({error}); check the name") from error
    except OSError as error:
        raise UsageError(f"--rdzv-endpoint {target}: there is no route to it ({error}); set --local-addr") from error


def is_local(host: str) -> bool:
    """Whether `host` has an address of this machine, that is, one that can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:  # a name that cannot be resolved yet belongs to another host
        return False
    return any(_bindable(family, address) for family, _, _, _, address in found)


def _bindable(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
        return True
