"""The rendezvous for an unmodified torchrun: `torchrun --rdzv-backend elasticjob --rdzv-endpoint HOST:PORT …`.

torchrun finds `get_handler` by the entry point `elasticjob` of the group `torchrun.handlers`. torch is imported only
inside functions that torchrun calls. Of this package only `torchrun_handler` imports this module.

torch's agent passes little to its rendezvous, so the handler infers events from the calls. A second `next_rendezvous`
without an order to stop is a failure of this node's workers. The exit barrier in the store is their success. A
shutdown without either means that the restarts are used up; it ends the job for all nodes, as torch's own rendezvous
does. After a signal torch calls none of these; then the node leaves in order when the interpreter exits. Budgets remain
torch's own, per agent.
"""

import atexit
import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from elasticjob_agent.cli import rdzv_conf, values
from elasticjob_agent.net.host_port import parse_endpoint
from elasticjob_agent.net.own_address import own_address_for_endpoint
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous import errors
from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler, HandlerDeps
from elasticjob_agent.rendezvous.interface import RendezvousInfo
from elasticjob_agent.rendezvous.job_rendezvous import NodeInfo
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.protocol.membership import LAST_CALL_TIMEOUT_S
from elasticjob_agent.supervisor.background_loop import Background, background
from elasticjob_agent.torchrun.round_store import RoundEnded, RoundStore
from elasticjob_agent.tracing import Tracer
from elasticjob_api import constants
from elasticjob_api.constants import JOIN_TIMEOUT_S, KEEP_ALIVE_S
from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Delete, Endpoint, Etcd, Txn

BACKEND = "elasticjob"
_NO_LIMIT = 1 << 30
_EXIT_BARRIER = "torchelastic/agent/terminal_state"
_LEAVE_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


def get_handler() -> Callable[[Any], "TorchrunRendezvous"]:
    """Return the factory for torchrun's registry, which makes a handler from torch's RendezvousParameters."""
    return create


def create(parameters: Any) -> "TorchrunRendezvous":
    """Return the handler of one torchrun process. Raise ValueError for an impossible parameter."""
    conf = rdzv_conf.parse_conf(",".join(f"{key}={value}" for key, value in parameters.config.items()))
    targets = parse_endpoint(parameters.endpoint)
    address = parameters.local_addr or own_address_for_endpoint(targets[0])
    keys = Keys(cli_prefix(f"torchrun-{values.parse_run_id(parameters.run_id)}"))
    spec = SpecRecord(
        min=parameters.min_nodes,
        max=parameters.max_nodes,
        desired=parameters.max_nodes,
        max_restarts=_NO_LIMIT,
        join_timeout_s=conf.join_timeout_s or JOIN_TIMEOUT_S,
        last_call_timeout_s=LAST_CALL_TIMEOUT_S if conf.last_call_timeout_s is None else conf.last_call_timeout_s,
        scale_up_delay_s=1.0,
        keep_alive_s=conf.keep_alive_s or KEEP_ALIVE_S,
    )
    identity = NodeIdentity(
        keys=keys,
        pod=f"{socket.gethostname()}-{os.getpid()}",
        pod_uid=secrets.token_hex(8),
        host=socket.gethostname(),
        address=address,
        nproc=1,  # torch's agent does not pass its number; it counts workers itself, through the store
        own_spec=spec,
    )
    endpoint = Endpoint(targets, ca_cert=conf.ca_cert, cert=conf.cert, key=conf.key)
    return TorchrunRendezvous(endpoint=endpoint, identity=identity, run_id=parameters.run_id)


class TorchrunRendezvous:
    """An implementation of torch's RendezvousHandler, for one torchrun process."""

    def __init__(self, *, endpoint: Endpoint, identity: NodeIdentity, run_id: str) -> None:
        self._background: Background = background()
        self._etcd: EtcdClient = self._background.submit(_client(endpoint)).result()
        self._keys = identity.keys
        self._store: RoundStore | None = None
        self._succeeded = False
        self._inner = EtcdRendezvousHandler(self._deps(identity, run_id))
        self._inner.offer(NodeInfo(role="", local_world_size=1, max_restarts=_NO_LIMIT), self._on_change)
        atexit.register(self._leave)

    def _deps(self, identity: NodeIdentity, run_id: str) -> HandlerDeps:
        join_timeout_s = identity.own_spec.join_timeout_s if identity.own_spec else JOIN_TIMEOUT_S
        return HandlerDeps(
            loop=self._background,
            connect=self._connection,
            make_identity=lambda _offer: identity,
            port=ReservedPort(identity.address),
            run_id=run_id,
            clock=time.monotonic,
            wall_ns=time.time_ns,
            random_hex=lambda: secrets.token_hex(4),
            trace=Tracer(os.environ.get(constants.ENV_TRACE), identity.pod),
            join_timeout_s=join_timeout_s,
        )

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Etcd]:
        """Yield the one client, which the store uses too; it is closed with the process."""
        yield self._etcd

    # -- called by torch -------------------------------------------------------------------------

    def get_backend(self) -> str:
        """Return the name after --rdzv-backend."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """False, because the worker of rank 0 opens the workers' store at MASTER_PORT."""
        return False

    def get_run_id(self) -> str:
        """Return the name after --rdzv-id."""
        return self._inner.get_run_id()

    def next_rendezvous(self) -> Any:
        """Wait for a round with this node in it, and until all of its nodes have joined it. Return a RendezvousInfo."""
        while True:
            try:
                info = self._inner.next_rendezvous()
            except errors.RendezvousError as error:
                raise _to_torch(error) from error
            store = self._store = self._new_store(info)
            try:
                # A node that died after the round was written is noticed here, and not inside torch's rank exchange.
                store.set(f"arrived/{info.rank}", b"1")
                store.wait([f"arrived/{rank}" for rank in range(info.world_size)])
            except (RoundEnded, TimeoutError) as error:
                log.info("abandoned a round before it began: %s", error)
                continue
            return _to_torch_info(info, store)

    def num_nodes_waiting(self) -> int:
        """Return 1 if the agent has to stop its workers and join the next rendezvous, for any reason; else 0."""
        return int(self._is_over())

    def is_closed(self) -> bool:
        """Whether the job has ended for this node."""
        return self._inner.is_closed()

    def set_closed(self) -> None:
        """End the job for all nodes: every agent's next rendezvous is refused."""
        try:
            self._background.submit(self._delete()).result(_LEAVE_TIMEOUT_S)
        except (EtcdError, TimeoutError) as error:
            log.warning("could not end the job for the others; they wait for this node: %s", error)

    def shutdown(self) -> bool:
        """Leave, because torch's agent has ended; without success or the end of the job, end the job for all nodes."""
        atexit.unregister(self._leave)
        if not self._succeeded and not self._inner.is_closed():
            self.set_closed()
        return self._inner.shutdown()

    # -- internal --------------------------------------------------------------------------------

    def _leave(self) -> None:
        self._inner.shutdown()

    async def _delete(self) -> None:
        await self._etcd.txn(Txn((), (Delete(self._keys.everything, prefix=True),)))

    def _is_over(self) -> bool:
        return self._inner.num_nodes_waiting() > 0 or (self._inner.is_closed() and not self._succeeded)

    def _on_change(self) -> None:
        if self._store is not None:
            self._background.loop.call_soon_threadsafe(self._store.wake)

    def _new_store(self, info: RendezvousInfo) -> "AgentStore":
        assignment = info.assignment
        round_ = 0 if assignment is None else assignment.round
        return AgentStore(
            etcd=self._etcd,
            prefix=f"{self._keys.prefix}/t/{round_}",
            submit=self._background.submit,
            is_over=self._is_over,
            succeeded=self._on_success,
            is_done=self._inner.is_closed,
        )

    def _on_success(self) -> None:
        self._succeeded = True
        self._inner.workers_succeeded()


class AgentStore(RoundStore):
    """The store of a round; torch's exit barrier in it waits for the end of the job, or for another round."""

    def __init__(self, *, succeeded: Callable[[], None], is_done: Callable[[], bool], **store: Any) -> None:
        super().__init__(**store)
        self._succeeded = succeeded
        self._is_done = is_done

    def add(self, key: str, amount: int) -> int:
        """Add to a number; at the exit barrier, report that this node's workers have succeeded."""
        if not key.startswith(_EXIT_BARRIER):
            return super().add(key, amount)
        self._succeeded()
        return 0

    def wait(self, keys: Any, timeout: Any = None) -> None:
        """Wait for keys; at the exit barrier, wait until the job has ended. Raise RoundEnded if it continues."""
        if not all(key.startswith(_EXIT_BARRIER) for key in keys):
            super().wait(keys, timeout)
            return
        self._submit(self._until(self._is_done, (timeout or self.timeout).total_seconds())).result()


async def _client(endpoint: Endpoint) -> EtcdClient:
    return EtcdClient(endpoint)


def _to_torch_info(info: RendezvousInfo, store: RoundStore) -> Any:
    from torch.distributed.elastic.rendezvous.api import (  # noqa: PLC0415  # only ever inside torchrun
        RendezvousInfo as TorchsInfo,
    )
    from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo as TorchsStoreInfo  # noqa: PLC0415  # as above

    address = info.bootstrap_store_info
    master = None if address is None else TorchsStoreInfo(address.master_addr, address.master_port)
    return TorchsInfo(store, info.rank, info.world_size, master)


def _to_torch(error: errors.RendezvousError) -> Exception:
    """Return the corresponding error of torch, which torch's agent catches."""
    from torch.distributed.elastic.rendezvous import api  # noqa: PLC0415  # only ever inside torchrun

    kinds = (
        (errors.RendezvousGracefulExitError, api.RendezvousGracefulExitError),
        (errors.RendezvousClosedError, api.RendezvousClosedError),
        (errors.RendezvousTimeoutError, api.RendezvousTimeoutError),
        (errors.RendezvousConnectionError, api.RendezvousConnectionError),
        (errors.RendezvousStateError, api.RendezvousStateError),
    )
    kind = next((theirs for ours, theirs in kinds if isinstance(error, ours)), api.RendezvousError)
    converted: Exception = kind(str(error))
    return converted
