"""The driver of a call: it makes sure that etcd runs, invites nodes, is a node itself, and collects the results."""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from elasticjob.errors import CallFailed, NoRendezvous, TooFewNodes
from elasticjob.multinode import protocol
from elasticjob.multinode.authentication import call_key
from elasticjob.multinode.discovery import invitation_key
from elasticjob.multinode.node_config import CallContext, call_spec, node_settings, rendezvous_address
from elasticjob.multinode.result_server import LOOPBACK, ResultServer
from elasticjob_agent.net.host_port import is_loopback
from elasticjob_agent.net.own_address import own_address_for_endpoint
from elasticjob_agent.node.run_node import NodeSettings, run_node, run_node_until
from elasticjob_agent.rendezvous.errors import Superseded
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.shared_etcd.lifetime import shared_etcd, wait_etcd_exited, wait_for_others
from elasticjob_api import records
from elasticjob_api.constants import KEEP_ALIVE_S
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import EtcdError, Unavailable
from elasticjob_etcd.interface import Endpoint, Get, Lease, Put, Txn, absent, reads_of
from elasticjob_etcd.leases import LeaseKeeper

_RETRY_S = 0.25
_OPEN = (
    "the nodes of this call share no secret: any client of their etcd can run code on them; "
    "set ELASTICJOB_CALL_SECRET_FILE to the same secret on all of them"
)
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """The arguments of a call."""

    spec: protocol.CallSpec
    content: bytes
    rdzv_endpoint: str
    rdzv_id: str
    secret: str | None = None
    """The secret that the nodes share; None: any client of their etcd may take part."""


async def run_driver(call: LaunchRequest, context: CallContext) -> dict[int, Any]:
    """Run a call; return rank → result, or raise CallError."""
    key = secrets.token_hex(16) if call.secret is None else call_key(call.secret, call.rdzv_id)
    results = context.folder / "results"
    results.mkdir()
    result_server = ResultServer(results, key, call.spec, call.content)
    address = _rendezvous_address(call)
    async with _etcd(address, context) as (endpoint, server):
        host = _host(address, server)
        everywhere = call.spec.max_nodes > 1 and not is_loopback(host)
        where = protocol.Invitation(host=host, port=await result_server.open(everywhere=everywhere), key=key)
        settings = node_settings(
            call.spec,
            call.content,
            where=where,
            endpoint=endpoint,
            address=own_address_for_endpoint(address.target if address else endpoint.targets[0]),
            context=context,
            nprocs=call.spec.nprocs,
        )
        try:
            async with _connect_first(endpoint, call, where, settings.identity.keys):
                outcome = await _run_node(settings, result_server, context, server)
        finally:
            await result_server.close()
        if server and outcome.state is not None:
            await wait_for_others(settings.identity.keys, server)
    return _results_or_error(outcome, result_server)


def _rendezvous_address(call: LaunchRequest) -> SharedEtcd | None:
    """Return the address where the nodes meet; None for a call of one node, whose etcd needs no port."""
    if not call.rdzv_endpoint:
        return None
    address = rendezvous_address(call.rdzv_endpoint)
    return None if call.spec.max_nodes == 1 and is_loopback(address.host) else address


def _host(address: SharedEtcd | None, server: EmbeddedEtcd | None) -> str:
    """Return the address of this node for the others."""
    if address is None:
        return LOOPBACK
    return address.host if server else own_address_for_endpoint(address.target)


async def _run_node(
    settings: NodeSettings, result_server: ResultServer, context: CallContext, server: EmbeddedEtcd | None
) -> Outcome:
    """Run this node until its end; the joined nodes get the message that the call is over only if it is."""
    try:
        if server is None:
            outcome = await run_node(settings, context.received_signals)
        else:
            outcome = await run_node_until(wait_etcd_exited(server), settings, context.received_signals)
    except Superseded as error:  # the other nodes ended the call without this one
        result_server.finish_call()
        return Outcome(ExitCode.FAILED if result_server.failures() else ExitCode.OK, str(error))
    if outcome.state is not None and outcome.state.phase.is_final:
        result_server.finish_call()
    return outcome


def _results_or_error(outcome: Outcome, server: ResultServer) -> dict[int, Any]:
    if outcome.code != ExitCode.OK:
        fail(outcome, server)
    round_ = server.last_round if outcome.state is None else outcome.state.round
    found = server.results(round_)
    if found is None:
        raise CallFailed(f"results of round {round_} are missing, although it succeeded ({outcome.detail})", {})
    return found


def fail(outcome: Outcome, server: ResultServer | None) -> NoReturn:
    """Raise the error of the caller for the end of a node."""
    if outcome.code == ExitCode.UNAVAILABLE:
        raise NoRendezvous(outcome.detail)
    if outcome.code == ExitCode.JOIN_TIMEOUT:
        raise TooFewNodes(f"{outcome.detail}; run join_nodes on more nodes, or lower nnodes")
    failures = server.failures() if server is not None else {}
    shown = "".join(
        f"\n\n-- rank {each.rank} on {each.host}: {each.error}\n{each.traceback}" for each in failures.values()
    )
    raise CallFailed(f"{outcome.detail}{shown}".rstrip(), failures)


@contextlib.asynccontextmanager
async def _etcd(
    address: SharedEtcd | None, context: CallContext
) -> AsyncIterator[tuple[Endpoint, EmbeddedEtcd | None]]:
    """Yield the endpoint of etcd, and the server if this process started it."""
    if address is None:
        server = await EmbeddedEtcd.start(context.folder / "etcd")
        try:
            yield server.socket, server
        finally:
            await server.stop()
        return
    async with shared_etcd(address, context.folder) as reached:
        yield reached.endpoint, reached.server


@contextlib.asynccontextmanager
async def _connect_first(
    endpoint: Endpoint, call: LaunchRequest, where: protocol.Invitation, keys: Keys
) -> AsyncIterator[None]:
    """Begin the call, and invite other nodes while the driver lives; raise NoRendezvous.

    A call of one node invites no others: any user of the machine could read the invitation in etcd, with its key.
    """
    etcd = EtcdClient(endpoint)
    spec = Put(keys.spec, records.encode(call_spec(call.spec)))
    try:
        if call.spec.max_nodes == 1:
            await _within(call.spec.join_timeout_s, endpoint, _write(etcd, spec))
            yield
            return
        if call.secret is None:
            log.warning("%s", _OPEN)
        invitation = where if call.secret is None else replace(where, key="")
        post = functools.partial(_advertise, etcd, call.rdzv_id, protocol.line_of(invitation))
        keeper = await _within(call.spec.join_timeout_s, endpoint, post(spec))
        advertising = asyncio.create_task(_keep_advertised(etcd, keeper, post), name="invitation")
        try:
            yield
        finally:
            advertising.cancel()
            await asyncio.wait({advertising})
    finally:
        await etcd.close()


async def _within(seconds: float, endpoint: Endpoint, work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        at = ",".join(endpoint.targets)
        raise NoRendezvous(
            f"no etcd answered at {at} within {seconds:g} s; check that it runs and is reachable"
        ) from error


async def _write(etcd: EtcdClient, put: Put) -> None:
    while True:
        try:
            await etcd.txn(Txn((), (put,)))
        except Unavailable:
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _keep_advertised(
    etcd: EtcdClient, keeper: LeaseKeeper, post: Callable[[], Coroutine[Any, Any, LeaseKeeper]]
) -> None:
    """Write the invitation again after etcd was away until the lease expired; delete it at the end."""
    try:
        while True:
            await keeper.lost.wait()
            log.info("the invitation of nodes is written again: %s", keeper.reason)
            await keeper.close()
            keeper = await post()
    finally:
        await keeper.close()
        with contextlib.suppress(EtcdError):  # otherwise it expires
            await etcd.lease_revoke(keeper.lease.id)


async def _advertise(etcd: EtcdClient, rdzv_id: str, line: bytes, *beside: Put) -> LeaseKeeper:
    """Write the invitation, and the records `beside` it in the same transaction."""
    key = invitation_key(rdzv_id)
    while True:
        try:
            lease = await etcd.lease_grant(KEEP_ALIVE_S)
            result = await etcd.txn(Txn((absent(key),), (Put(key, line, lease=lease.id), *beside), (Get(key),)))
            if result.succeeded:
                return LeaseKeeper(etcd, lease)
            found = reads_of(result)[0]
            if found.value != line:
                raise NoRendezvous(
                    f"another driver uses rdzv_id {rdzv_id!r} there; choose another rdzv_id for this call"
                )
            return LeaseKeeper(etcd, Lease(found.lease, lease.ttl_s))  # an earlier write without an answer
        except Unavailable:
            await asyncio.sleep(_RETRY_S)
