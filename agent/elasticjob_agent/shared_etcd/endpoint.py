"""The endpoint at which a node dials the shared etcd, and which node of a machine may start it.

Nodes of one machine meet on a Unix socket that other users cannot reach (`elasticjob_etcd.socket_dir`). Others meet at
the port. A server at a port of the loopback interface is used only if it is trusted (`listeners`).
"""

import asyncio
import logging
import os
import time
from pathlib import Path

from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.host_port import is_loopback
from elasticjob_agent.net.own_address import is_local
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.shared_etcd.listeners import is_taken, is_trusted, owners
from elasticjob_etcd.errors import ServerError
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.listening import Listening
from elasticjob_etcd.socket_dir import NONE, VARIABLE, Claim, answers, claim, port_folder

_START_TIMEOUT_S = 45.0
"""Seconds to wait for an etcd that another node starts: longer than that node itself waits."""
_RETRY_S = 0.05
_SLOW_RETRY_S = 0.25
"""The same, after the first second: a joiner may wait for minutes."""
_DIAL_S = 1.0
_CURES = f"name the machine's address, or set {VARIABLE}={NONE} on all nodes"

log = logging.getLogger(__name__)


def rendezvous_dir(address: SharedEtcd) -> Path | None:
    """Return the folder in which nodes of this machine meet for `address`.

    None if the address belongs to another machine, or if the nodes have to meet at the port.
    """
    if not is_loopback(address.host) and not is_local(address.host):
        return None
    try:
        return port_folder(address.port, os.environ)
    except ServerError as error:
        fall_back_to_port(address, error)
        return None


def fall_back_to_port(address: SharedEtcd, error: ServerError) -> None:
    """Log why the nodes meet at the port. Raise UsageError for a loopback address, where the port is not safe."""
    if is_loopback(address.host):
        raise UsageError(str(error)) from error
    log.warning("nodes of this machine meet at the port, like nodes of other machines: %s", error)


async def try_claim(folder: Path) -> Claim | None:
    """Return the right to start the etcd of `folder`; None if the etcd of another node answers there.

    Raises:
        ServerError: another process locks the folder, and no etcd answers within 45 s.
    """
    until = time.monotonic() + _START_TIMEOUT_S
    while True:
        if (found := claim(folder)) is not None:
            return found
        if await answers(folder):
            return None
        if time.monotonic() >= until:
            locked = f"another process locks it (fuser {folder} shows which), and no etcd answers there"
            raise ServerError(f"nodes of this machine cannot meet in {folder}: {locked}")
        await asyncio.sleep(_RETRY_S)  # the owner is starting, or was killed and its etcd is about to end


async def peer_endpoint(address: SharedEtcd, folder: Path) -> Endpoint:
    """Return the endpoint at which a node dials the etcd that another node starts."""
    if is_loopback(address.host) or await answers(folder):
        return Listening(folder).socket
    return Endpoint((address.target,))


async def find_endpoint(address: SharedEtcd, *, within_s: float) -> Endpoint:
    """Return the endpoint of an etcd that another node starts, or that existed before.

    For a loopback address this waits at most `within_s` seconds for an etcd at the socket or the port.
    """
    folder, begun_s = rendezvous_dir(address), time.monotonic()
    if folder is None:
        return Endpoint((address.target,))
    if not await answers(folder):
        await warn_of_untrusted(address)
    while is_loopback(address.host) and not await answers(folder) and time.monotonic() < begun_s + within_s:
        if is_there(address):
            return Endpoint((address.target,))
        await asyncio.sleep(_RETRY_S if time.monotonic() < begun_s + 1.0 else _SLOW_RETRY_S)
    return await peer_endpoint(address, folder)


async def warn_of_untrusted(address: SharedEtcd) -> None:
    """Log a warning if a server at the port is not trusted."""
    if reason := await untrusted_reason(address):
        log.warning("%s", reason)


async def untrusted_reason(address: SharedEtcd) -> str:
    """Return why the server at the port is not trusted as the job's etcd, with the cures; empty if there is none."""
    if not address.or_there or not is_loopback(address.host) or is_trusted(address.port):
        return ""
    if other_owners := sorted(owners(address.port) - {os.geteuid(), 0}):
        uids = ", ".join(str(uid) for uid in other_owners)
        return f"the server at {address.target} belongs to the user with uid {uids} and is not trusted; {_CURES}"
    if await _probe(address):
        unknown = "no listener there is known to belong to this user or root, so it is not trusted"
        return f"a server answers at {address.target}, but {unknown}; {_CURES}"
    return ""


async def _probe(address: SharedEtcd) -> bool:
    try:
        async with asyncio.timeout(_DIAL_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return False
    is_itself = writer.get_extra_info("sockname") == writer.get_extra_info("peername")
    writer.transport.abort()
    return not is_itself


def is_there(address: SharedEtcd) -> bool:
    """Whether a server listens at the port of this machine that counts as the etcd of `address`."""
    if is_loopback(address.host):
        return address.or_there and is_trusted(address.port)
    return is_taken(address.port)
