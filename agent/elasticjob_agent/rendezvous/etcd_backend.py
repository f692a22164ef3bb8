"""The backend `etcd`: from rendezvous parameters to a handler of a job without an operator.

Options: `join_timeout`, `last_call_timeout` and `keep_alive` in seconds, `node_rank` to choose the slot. For etcd over
TLS `cacert`, `cert` and `key` are paths of PEM files. The member runs in the background event loop of the process.
"""

import contextlib
import math
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from elasticjob_agent.net.own_address import own_address
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.errors import RendezvousConnectionError
from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler, HandlerDeps
from elasticjob_agent.rendezvous.interface import RendezvousParameters
from elasticjob_agent.rendezvous.job_rendezvous import NodeInfo
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.protocol.membership import LAST_CALL_TIMEOUT_S
from elasticjob_agent.supervisor.background_loop import background
from elasticjob_agent.tracing import Tracer
from elasticjob_api import constants, keys
from elasticjob_api.constants import JOIN_TIMEOUT_S, KEEP_ALIVE_S
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Etcd

_PORT = 2379
_SCALE_UP_DELAY_S = 1.0


def create(params: RendezvousParameters) -> EtcdRendezvousHandler:
    """Return the handler of one node; raise ValueError for invalid parameters, RendezvousConnectionError."""
    if "/" in params.run_id or not params.run_id:
        raise ValueError(f"run_id {params.run_id!r} of an etcd rendezvous; it must be a name without a slash")
    endpoint = _endpoint(params)
    address = params.local_addr or _address(endpoint.targets[0])
    join_timeout_s = _timeouts(params).join_s

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Etcd]:
        client = EtcdClient(endpoint)
        try:
            yield client
        finally:
            await client.close()

    def make_identity(node: NodeInfo) -> NodeIdentity:
        return _identity(params, node, node.local_addr or address)

    return EtcdRendezvousHandler(
        HandlerDeps(
            loop=background(),
            connect=connect,
            make_identity=make_identity,
            port=ReservedPort(address),
            run_id=params.run_id,
            clock=time.monotonic,
            wall_ns=time.time_ns,
            random_hex=lambda: secrets.token_hex(4),
            trace=Tracer(os.environ.get(constants.ENV_TRACE), f"{socket.gethostname()}-{os.getpid()}"),
            join_timeout_s=join_timeout_s,
        )
    )


def _identity(params: RendezvousParameters, node: NodeInfo, address: str) -> NodeIdentity:
    host, timeouts = socket.gethostname(), _timeouts(params)
    spec = SpecRecord(
        min=params.min_nodes,
        max=params.max_nodes,
        desired=params.max_nodes,
        max_restarts=node.max_restarts,
        join_timeout_s=timeouts.join_s,
        last_call_timeout_s=timeouts.last_call_timeout_s,
        scale_up_delay_s=_SCALE_UP_DELAY_S,
        keep_alive_s=timeouts.keep_alive_s,
    )
    return NodeIdentity(
        keys=Keys(keys.cli_prefix(params.run_id)),
        pod=f"{host}-{os.getpid()}-{secrets.token_hex(2)}",
        pod_uid=secrets.token_hex(8),
        host=host,
        address=address,
        nproc=node.local_world_size,
        role=node.role,
        slot=params.get_as_int("node_rank"),
        own_spec=spec,
    )


def _endpoint(params: RendezvousParameters) -> Endpoint:
    targets = tuple(word.strip() for word in params.endpoint.split(",") if word.strip())
    if not targets:
        raise ValueError("the endpoint of an etcd rendezvous is missing: HOST:PORT, several separated by commas")
    with_port = tuple(t if t.rpartition(":")[2].isdecimal() and ":" in t else f"{t}:{_PORT}" for t in targets)
    return Endpoint(with_port, ca_cert=params.get("cacert"), cert=params.get("cert"), key=params.get("key"))


class _Timeouts(NamedTuple):
    join_s: float
    last_call_timeout_s: float
    keep_alive_s: float


def _timeouts(params: RendezvousParameters) -> _Timeouts:
    return _Timeouts(
        join_s=_seconds(params, "join_timeout", JOIN_TIMEOUT_S),
        last_call_timeout_s=_seconds(params, "last_call_timeout", LAST_CALL_TIMEOUT_S, or_none=True),
        keep_alive_s=_seconds(params, "keep_alive", KEEP_ALIVE_S),
    )


def _seconds(params: RendezvousParameters, option: str, default: float, *, or_none: bool = False) -> float:
    value = params.get(option, default)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf and not (or_none and seconds == 0):
        or_0 = "0 or " if or_none else ""
        raise ValueError(f"rendezvous option {option} is {value!r}; it must be {or_0}a number of seconds above 0")
    return seconds


def _address(target: str) -> str:
    try:
        return own_address(target)
    except OSError as error:
        raise RendezvousConnectionError(f"this host cannot reach etcd at {target}: {error}") from error
