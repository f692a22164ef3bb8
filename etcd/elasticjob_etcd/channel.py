"""Open the gRPC channel of an `Endpoint`, for `connection` alone: target, credentials, and options against stalls.

`open_channel` keeps nothing of a channel. The import registers a hook for forks, because gRPC does not survive one.
Each option prevents a failure that was observed. Without them a watch on a stalled etcd receives nothing for ever, and
a large read ends as an error.
"""

import ipaddress
import os
from pathlib import Path

from elasticjob_etcd.errors import BadEndpoint, Forked
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.silent_grpc import grpc

OPTIONS: tuple[tuple[str, int], ...] = (
    # A stalled server is noticed after 8 to 13 s. etcd refuses pings closer than 5 s ("too_many_pings").
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # by default keepalive waits 60 s for an answer
    ("grpc.http2.max_pings_without_data", 0),  # else an idle stream is pinged twice and never again
    # etcd counts pings of a connection without a call, and ends it at the fourth. A client that must notice has a
    # stream open.
    ("grpc.keepalive_permit_without_calls", 0),
    # Else gRPC pings after every answer, also after that of a refresh, to measure the bandwidth. The result is set
    # directly: how much of a large list etcd may send before it waits for the client.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1 << 20),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Also how long a connection may take to be established: TLS over a long distance, or to an etcd that a thousand
    # others dial.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A recreated Service has another address; gRPC would resolve it once in 30 s, longer than a lease.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ("grpc.max_receive_message_length", -1),  # a listing of all keys of a large job exceeds 4 MB
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel reuses the old connection
    ("grpc.enable_http_proxy", 0),  # etcd is inside the cluster; http_proxy is for other hosts
)

_UNIX = "unix:/"
"""Begins the address of a socket on this machine, an absolute path."""


def open_channel(endpoint: Endpoint, *, attempt: int = 0) -> grpc.aio.Channel:
    """Return a channel, inside a running event loop; it connects with the first call. Raises `BadEndpoint`, `Forked`.

    Each `attempt` begins with another one of several addresses.
    """
    target = target_of(rotated(endpoint.targets, attempt))
    _grpc.before_use()
    credentials = _credentials(endpoint)
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=OPTIONS)
    # The name that the certificate is checked against; by default that would be the whole list of targets.
    authority = ("grpc.default_authority", endpoint.targets[0])
    return grpc.aio.secure_channel(target, credentials, options=(*OPTIONS, authority))


class _Grpc:
    """Whether gRPC has been used in this process, or in the one that it was forked from."""

    def __init__(self) -> None:
        self._is_used = self._is_copy = False
        os.register_at_fork(after_in_child=self._note_fork)

    def before_use(self) -> None:
        """Note the use of gRPC; raise `Forked` where it cannot be used."""
        if self._is_copy:
            raise Forked(
                "this process cannot use etcd: it was forked from one that did, and gRPC does not survive a fork. "
                "Start it by the method 'spawn' or 'forkserver', or fork before the first use"
            )
        self._is_used = True

    def _note_fork(self) -> None:
        self._is_copy = self._is_copy or self._is_used


_grpc = _Grpc()


def rotated(targets: tuple[str, ...], attempt: int) -> tuple[str, ...]:
    """Return the targets in rotated order: each `attempt` begins with the next one."""
    first = attempt % max(1, len(targets))
    return targets[first:] + targets[:first]


def target_of(targets: tuple[str, ...]) -> str:
    """Return the gRPC target with all of `targets`; raise `BadEndpoint` with the fault."""
    if not targets:
        raise BadEndpoint("no etcd address was given; write host:port")
    if len(targets) == 1 and targets[0].startswith(_UNIX):
        return targets[0]
    families = {_family(target) for target in targets}
    if len(targets) == 1 and families == {"dns"}:
        return f"dns:///{targets[0]}"
    if len(families) > 1 or families == {"dns"}:
        message = (
            f"etcd addresses {', '.join(targets)}: several must be IP addresses of one family; "
            "otherwise give one host name that resolves to all of them"
        )
        raise BadEndpoint(message)
    return f"{families.pop()}:{','.join(targets)}"


def _family(target: str) -> str:
    host, colon, port = target.rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in host:
        message = f"etcd address {target!r} is not host:port"
        raise BadEndpoint(message)
    try:
        return f"ipv{ipaddress.ip_address(host.strip('[]')).version}"
    except ValueError:
        return "dns"


def _credentials(endpoint: Endpoint) -> grpc.ChannelCredentials | None:
    if not (endpoint.ca_cert or endpoint.cert or endpoint.key):
        return None
    if bool(endpoint.cert) != bool(endpoint.key):
        raise BadEndpoint("an etcd client certificate needs both cert and key; one of them is missing")
    return grpc.ssl_channel_credentials(
        root_certificates=_read("ca_cert", endpoint.ca_cert),
        private_key=_read("key", endpoint.key),
        certificate_chain=_read("cert", endpoint.cert),
    )


def _read(name: str, path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"etcd {name} file {path} cannot be read: {error.strerror}"
        raise BadEndpoint(message) from error
