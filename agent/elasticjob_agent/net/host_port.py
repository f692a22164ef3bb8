"""Addresses of servers as users write them: `HOST[:PORT]`, several separated by commas."""

import ipaddress

from elasticjob_agent.errors import UsageError

C10D_PORT = 29400
"""The port of an endpoint without one, where nodes meet."""
ETCD_PORT = 2379
"""The same, where etcd is."""


def parse_endpoint(text: str, default_port: int = ETCD_PORT) -> tuple[str, ...]:
    """Return the targets of `HOST[:PORT]`, several separated by commas, each with a port."""
    targets = tuple(word.strip() for word in text.split(",") if word.strip())
    if not targets:
        raise UsageError("--rdzv-endpoint is missing: HOST:PORT of etcd (or use --standalone)")
    return tuple(target if _has_port(target) else f"{target}:{default_port}" for target in targets)


def _has_port(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return bool(host) and port.isdecimal()


def parse_single_endpoint(endpoint: str, default_port: int) -> tuple[str, int]:
    """Return host and port of an endpoint with one address."""
    targets = parse_endpoint(endpoint, default_port)
    if len(targets) > 1:
        raise UsageError(f"--rdzv-endpoint {endpoint}: only --rdzv-backend etcd takes several endpoints; name one")
    host, _, port = targets[0].rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether `host` is the loopback interface, which no other machine can dial.

    Of names only localhost counts: other machines may be able to resolve any other name of this machine.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
