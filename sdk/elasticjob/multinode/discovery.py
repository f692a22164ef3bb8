"""A node that joins: it finds the driver through the rendezvous' etcd, receives the call, and watches the driver.

One connection to the driver lasts for the whole call. If it ends without the driver's last message, this node stops
too. If the network drops it silently, the kernel's keep-alive notices that within half a minute.
"""

import asyncio
import logging
import secrets
import socket
from dataclasses import dataclass, replace

from elasticjob.errors import NoRendezvous
from elasticjob.multinode import protocol
from elasticjob.multinode.authentication import (
    LINE_BYTES,
    AuthenticationError,
    Authenticator,
    call_key,
    require_challenge,
)
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.mirror import Mirror

_DIAL_S = 10.0
_RETRY_S = 0.5
_PROBES = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))

log = logging.getLogger(__name__)


def invitation_key(rdzv_id: str) -> str:
    """Return the key of the driver's address in etcd; it has a lease."""
    return f"/elasticjob/call/{rdzv_id}"


@dataclass(frozen=True, slots=True)
class DriverConnection:
    """The call, and the connection to its driver, which `close` ends."""

    spec: protocol.CallSpec
    payload: bytes
    where: protocol.Invitation
    _nonce: bytes
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def wait_over(self) -> bool:
        """Wait for the end of the connection; return whether the call is over, not only the driver."""
        try:
            Authenticator(self.where.key, protocol.DONE, self._nonce).require(
                await self._reader.readexactly(LINE_BYTES)
            )
        except (OSError, EOFError, AuthenticationError):
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def connect(
    endpoint: Endpoint, rdzv_id: str, secret: str | None, *, within_s: float, waited_s: float
) -> DriverConnection:
    """Wait for an invitation and connect to its driver; raise NoRendezvous if that does not succeed in time.

    The time limit is `within_s`, of which `waited_s` has passed.

    With a secret, only a driver that has it is accepted, whatever etcd contains.
    """
    etcd, key = EtcdClient(endpoint), invitation_key(rdzv_id)
    problem = f"no driver has called for {rdzv_id!r}"
    try:
        async with asyncio.timeout(within_s - waited_s), Mirror(etcd, key) as found:
            while True:
                while key not in found.items:
                    await found.wait_change(found.revision)
                where = protocol.Invitation(**protocol.fields_of(found.items[key].value))
                if secret is not None:
                    where = replace(where, key=call_key(secret, rdzv_id))
                try:
                    return await _connect_once(where)
                except (OSError, EOFError, ValueError) as error:  # an ended driver's invitation remains for seconds
                    reason = error or type(error).__name__
                    problem = f"the driver at {where.host}:{where.port} does not send the call ({reason})"
                    log.warning("%s; trying again", problem)
                await asyncio.sleep(_RETRY_S)
    except TimeoutError as error:
        cure = "call launch_nodes with this rdzv_endpoint and rdzv_id on a node that this one can reach"
        raise NoRendezvous(f"{','.join(endpoint.targets)}: {problem}, after {within_s:g} s; {cure}") from error
    finally:
        await etcd.close()


async def _connect_once(address: protocol.Invitation) -> DriverConnection:
    if not address.key:
        raise AuthenticationError(
            "the driver has a secret, this node has none: set ELASTICJOB_CALL_SECRET_FILE on both"
        )
    async with asyncio.timeout(_DIAL_S):
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=protocol.LINE_LIMIT)
    try:
        _probe(writer.get_extra_info("socket"))
        nonce = secrets.token_hex(16)
        await _handshake(
            reader, writer, address.key, protocol.Hello(nonce=nonce, kind=protocol.JOIN, host=socket.gethostname())
        )
        line = await reader.readline()
        seal = Authenticator(address.key, protocol.CALL, nonce.encode(), line)
        seal.require(await reader.readexactly(LINE_BYTES))  # checked before the size in the line is used
        spec = protocol.CallSpec(**protocol.fields_of(line))
        payload = await reader.readexactly(spec.size)
        seal.update(payload)
        seal.require(await reader.readexactly(LINE_BYTES))
        return DriverConnection(spec, payload, address, nonce.encode(), reader, writer)
    except asyncio.IncompleteReadError as error:
        writer.close()
        raise EOFError("the driver closed the connection; check that both nodes have the same secret") from error
    except BaseException:
        writer.close()
        raise


async def _handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str, hello: protocol.Hello
) -> None:
    seal = Authenticator(key, protocol.HELLO, require_challenge(await reader.readline()))
    line = protocol.line_of(hello)
    seal.update(line)
    writer.write(line + seal.line)


def _probe(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES:
        raw.setsockopt(socket.IPPROTO_TCP, option, value)
