"""The static rendezvous: the command line names its nodes, which never change.

Rank 0 serves a store on the port after the endpoint's. The endpoint itself is for the workers, as MASTER_ADDR and
MASTER_PORT. A node that restarts its workers gets the same ranks again, at once.
"""

from elasticjob_agent.rendezvous.errors import RendezvousClosedError, RendezvousConnectionError
from elasticjob_agent.rendezvous.interface import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from elasticjob_agent.rendezvous.store import InMemoryStore, Store
from elasticjob_agent.rendezvous.store_server import StoreClient, StoreServer


class StaticRendezvousHandler(RendezvousHandler):
    """One node of a job with fixed membership."""

    def __init__(
        self, *, run_id: str, rank: int, world_size: int, master: tuple[str, int], store_port: int | None = None
    ) -> None:
        """`store_port` None: the port after the master's. Raise ValueError for a rank out of range."""
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of a static rendezvous; with {world_size} nodes it is 0 to {world_size - 1}")
        self._run_id, self._rank, self._world_size = run_id, rank, world_size
        self._master = master
        self._store_port = master[1] + 1 if store_port is None else store_port
        self._server: StoreServer | None = None
        self._store: Store | None = None
        self._closed = False

    def get_backend(self) -> str:
        """Return `static`."""
        return "static"

    def get_run_id(self) -> str:
        """Return the id of the job."""
        return self._run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Return this node's ranks; raise RendezvousClosedError, RendezvousConnectionError."""
        if self._closed:
            raise RendezvousClosedError(f"the static rendezvous {self._run_id} was closed")
        if self._store is None:
            self._store = self._open_store()
            if self._rank == 0:  # agents for torch before 2.4 read the address from the store
                self._store.set("MASTER_ADDR", self._master[0].encode())
                self._store.set("MASTER_PORT", str(self._master[1]).encode())
        return RendezvousInfo(self._store, self._rank, self._world_size, RendezvousStoreInfo(*self._master))

    def _open_store(self) -> Store:
        if self._world_size == 1:
            return InMemoryStore()
        if self._rank == 0:
            try:
                self._server = StoreServer(("", self._store_port))
            except OSError as error:
                raise RendezvousConnectionError(
                    f"cannot serve the store of the static rendezvous on port {self._store_port}: {error}"
                ) from error
        host = "localhost" if self._rank == 0 else self._master[0]
        port = self._store_port if self._server is None else self._server.port
        return StoreClient((host, port), prefix=f"{self._run_id}/")

    def is_closed(self) -> bool:
        """Whether this node closed it."""
        return self._closed

    def set_closed(self) -> None:
        """Take no further part."""
        self._closed = True

    def num_nodes_waiting(self) -> int:
        """Return 0: no node can join."""
        return 0

    def shutdown(self) -> bool:
        """Stop the server."""
        if self._server is not None:
            self._server.close()
            self._server = None
        return True


def create(params: RendezvousParameters) -> StaticRendezvousHandler:
    """Create a handler from `endpoint` host:port and the options `rank`, `store_port`; raise ValueError."""
    host, _, port = params.endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"endpoint {params.endpoint!r} of a static rendezvous; it must be HOST:PORT of node 0")
    rank = params.get_as_int("rank")
    if rank is None:
        raise ValueError("a static rendezvous needs the option rank: the number of this node, from 0")
    if params.min_nodes != params.max_nodes:
        raise ValueError(f"a static rendezvous has a fixed size, not {params.min_nodes} to {params.max_nodes} nodes")
    return StaticRendezvousHandler(
        run_id=params.run_id,
        rank=rank,
        world_size=params.max_nodes,
        master=(host.strip("[]"), int(port)),
        store_port=params.get_as_int("store_port"),
    )
