"""A node that joins: it receives the function from the driver, and runs until the call or the driver has ended."""

import asyncio
import logging
import time
from typing import NoReturn

from elasticjob.errors import CallerGone, NoRendezvous
from elasticjob.multinode import discovery
from elasticjob.multinode.discovery import DriverConnection
from elasticjob.multinode.driver import fail
from elasticjob.multinode.node_config import CallContext, node_settings
from elasticjob_agent.net.own_address import own_address_for_endpoint
from elasticjob_agent.node.run_node import run_node
from elasticjob_agent.rendezvous.errors import Superseded
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.shared_etcd.endpoint import find_endpoint, untrusted_reason
from elasticjob_api.exit_codes import ExitCode

_STOP_S = 15.0
"""Seconds for the workers of a node without a driver to stop; their short grace is 5."""

log = logging.getLogger(__name__)


async def join(
    address: SharedEtcd,
    rdzv_id: str,
    secret: str | None,
    context: CallContext,
    *,
    nprocs: int | None,
    join_timeout_s: float,
) -> None:
    """Join one call; raise CallError."""
    begun_s = time.monotonic()
    endpoint = await find_endpoint(address, within_s=join_timeout_s)
    waited_s = time.monotonic() - begun_s
    try:
        connection = await discovery.connect(endpoint, rdzv_id, secret, within_s=join_timeout_s, waited_s=waited_s)
    except NoRendezvous as error:
        if reason := await untrusted_reason(address):
            raise NoRendezvous(f"{error}. Also: {reason}") from error
        raise
    try:
        settings = node_settings(
            connection.spec,
            connection.payload,
            where=connection.where,
            endpoint=endpoint,
            address=own_address_for_endpoint(address.target),
            context=context,
            nprocs=nprocs or connection.spec.nprocs,
        )
        node = asyncio.create_task(run_node(settings, context.received_signals), name="node")
        over = asyncio.create_task(connection.wait_over(), name="end of the call")
        try:
            await _until_end(node, over, connection)
        finally:
            over.cancel()
    finally:
        connection.close()


async def _until_end(node: asyncio.Task[Outcome], over: asyncio.Task[bool], connection: DriverConnection) -> None:
    await asyncio.wait({node, over}, return_when=asyncio.FIRST_COMPLETED)
    if not node.done() and over.result():
        await asyncio.wait({node}, timeout=_STOP_S)  # the node reads the end from etcd
    if not node.done():
        await _stop(node, connection, is_over=over.result())
    try:
        outcome = node.result()
    except Superseded as error:  # no spec of the driver is left: the call has ended without this node
        await _explain(error, over)
        return
    if outcome.code != ExitCode.OK:
        fail(outcome, None)


async def _stop(node: asyncio.Task[Outcome], connection: DriverConnection, *, is_over: bool) -> NoReturn:
    node.cancel()
    await asyncio.wait({node}, timeout=_STOP_S)
    if is_over:
        raise CallerGone("the call is over, but this node could not read its result from etcd; the node has stopped")
    where = f"{connection.where.host}:{connection.where.port}"
    raise CallerGone(f"the driver at {where} has ended or is unreachable; this node has stopped")


async def _explain(error: Superseded, over: asyncio.Task[bool]) -> None:
    """Return if the call is over; raise CallError otherwise."""
    await asyncio.wait({over}, timeout=_STOP_S)
    if not over.done() or not over.result():
        raise NoRendezvous(f"this node cannot take part in the call: {error}") from error
    log.info("the call was over before this node could take part in it")
