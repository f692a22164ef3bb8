"""The node that asks: sees that there is an etcd, invites the others, is a node itself, and judges how it all ended."""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn

from elasticjob.errors import CallFailed, NoRendezvous, TooFewNodes
from elasticjob.nodes import wire
from elasticjob.nodes.desk import Desk
from elasticjob.nodes.guest import invitation_key
from elasticjob.nodes.node import LEASE_TTL_S, Life, meeting_place, node_settings
from elasticjob_agent.hosted import hosted_etcd, others_left
from elasticjob_agent.meeting import Hosted
from elasticjob_agent.node import run_node
from elasticjob_agent.rendezvous.ports import Outcome
from elasticjob_agent.settings import own_address
from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.protocol import Endpoint, Get, Put, Txn, absent, reads_of
from elasticjob_etcd.server import EtcdServer

_AGAIN_S = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked for."""

    terms: wire.Terms
    content: bytes
    rdzv_endpoint: str
    rdzv_id: str


async def ask(call: Call, life: Life) -> dict[int, Any]:
    """Rank → result; raises CallError."""
    key = secrets.token_hex(16)
    results = life.folder / "results"
    results.mkdir()
    desk = Desk(results, key, call.terms, call.content)
    async with _etcd(call.rdzv_endpoint, life) as (endpoint, place, is_owner):
        host = place.host if is_owner else own_address(place.target)
        where = wire.Invitation(host=host, port=await desk.open(), key=key)
        settings = node_settings(
            call.terms,
            call.content,
            where=where,
            endpoint=endpoint,
            place=place,
            life=life,
            nprocs=call.terms.nprocs,
        )
        try:
            async with _invited(endpoint, call, where):
                outcome = await run_node(settings, life.told)
        finally:
            await desk.close()
        if is_owner and outcome.world is not None:
            await others_left(settings.profile.keys, place)
    return _judged(outcome, desk)


def _judged(outcome: Outcome, desk: Desk) -> dict[int, Any]:
    if outcome.code != ExitCode.OK or outcome.world is None:
        fail(outcome, desk)
    found = desk.results(outcome.world.round)
    if found is None:
        raise CallFailed(f"all ranks of round {outcome.world.round} succeeded, and not all results came", {})
    return found


def fail(outcome: Outcome, desk: Desk | None) -> NoReturn:
    """Raise what the end of a node means to whoever called."""
    if outcome.code == ExitCode.JOIN_TIMEOUT:
        raise TooFewNodes(f"{outcome.detail}; start join_nodes on more of them, or lower nnodes")
    failures = desk.failures() if desk is not None else {}
    shown = "".join(
        f"\n\n-- rank {each.rank} on {each.host}: {each.error}\n{each.traceback}" for each in failures.values()
    )
    raise CallFailed(f"{outcome.detail}{shown}".rstrip(), failures)


@contextlib.asynccontextmanager
async def _etcd(rdzv_endpoint: str, life: Life) -> AsyncIterator[tuple[Endpoint, Hosted, bool]]:
    """Where nodes meet, and whether this process has started it."""
    if not rdzv_endpoint:
        server = await EtcdServer.start(life.folder / "etcd")
        try:
            host, _, port = server.endpoint.targets[0].rpartition(":")
            yield server.endpoint, Hosted(host=host, port=int(port), is_owner=True), True
        finally:
            await server.stop()
        return
    place = meeting_place(rdzv_endpoint)
    async with hosted_etcd(place, life.folder) as is_owner:
        yield Endpoint((f"127.0.0.1:{place.port}",) if is_owner else (place.target,)), place, is_owner


@contextlib.asynccontextmanager
async def _invited(endpoint: Endpoint, call: Call, where: wire.Invitation) -> AsyncIterator[None]:
    """Say to everybody where the asker is, as long as it lives; raises NoRendezvous."""
    etcd = EtcdClient(endpoint)
    post = functools.partial(_post, etcd, call.rdzv_id, wire.line_of(where))
    within_s = call.terms.join_timeout_s
    try:
        try:
            async with asyncio.timeout(within_s):
                keeper = await post()
        except TimeoutError as error:
            at = ",".join(endpoint.targets)
            raise NoRendezvous(f"no etcd answered at {at} within {within_s:g} s; is it up, and reachable?") from error
        minding = asyncio.create_task(_keep_posted(keeper, post), name="invitation")
        try:
            yield
        finally:
            minding.cancel()
            await asyncio.wait({minding})
    finally:
        await etcd.close()


async def _keep_posted(keeper: LeaseKeeper, post: Callable[[], Coroutine[Any, Any, LeaseKeeper]]) -> None:
    """An etcd that was away for long has forgotten the lease: the invitation is posted again."""
    try:
        while True:
            await keeper.lost.wait()
            log.info("nodes that want to join are invited anew: %s", keeper.reason)
            await keeper.close()
            keeper = await post()
    finally:
        await keeper.close()


async def _post(etcd: EtcdClient, rdzv_id: str, line: bytes) -> LeaseKeeper:
    key = invitation_key(rdzv_id)
    while True:
        try:
            lease = await etcd.lease_grant(LEASE_TTL_S)
            written = await etcd.txn(Txn((absent(key),), (Put(key, line, lease=lease.id),), (Get(key),)))
            if not written.succeeded and reads_of(written)[0].value != line:
                raise NoRendezvous(f"somebody else calls for {rdzv_id!r} there; give this call another rdzv_id")
            return LeaseKeeper(etcd, lease)
        except Unavailable:
            await asyncio.sleep(_AGAIN_S)
