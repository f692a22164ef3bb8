"""The interface of a rendezvous in torch elastic's form: the handler, its results, its parameters.

Any handler will do for `SimpleElasticAgent`: this one knows nothing of etcd. Further methods of ours are in the
protocol `JobRendezvous` of `rendezvous.job`.
"""

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.store import Store

_TRUE = {"1", "true", "t", "yes", "y"}
_FALSE = {"0", "false", "f", "no", "n"}


@dataclass(frozen=True)
class RendezvousStoreInfo:
    """Where the workers of a round find rank 0."""

    master_addr: str
    master_port: int


@dataclass(frozen=True)
class RendezvousInfo:
    """A completed rendezvous; also unpacks into the older triple (store, rank, world_size)."""

    store: Store | None
    rank: int
    """Of this node: its group rank."""
    world_size: int
    """Number of nodes."""
    bootstrap_store_info: RendezvousStoreInfo | None = None
    assignment: Assignment | None = None
    """All ranks of this node's workers, when the rendezvous carries them; then no store is needed."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.store, self.rank, self.world_size))


def as_rendezvous_info(result: Any) -> RendezvousInfo:
    """What any handler returned, as ours: the older triple, or an object with torch's fields, whatever its class."""
    if isinstance(result, RendezvousInfo):
        return result
    if not all(hasattr(result, name) for name in ("store", "rank", "world_size")):
        return RendezvousInfo(*result)
    found = getattr(result, "bootstrap_store_info", None)
    bootstrap = None if found is None else RendezvousStoreInfo(found.master_addr, found.master_port)
    return RendezvousInfo(result.store, result.rank, result.world_size, bootstrap)


RendezvousResult = RendezvousInfo | tuple[Store, int, int]


class RendezvousHandler(abc.ABC):
    """One node's access to a rendezvous."""

    @abc.abstractmethod
    def get_backend(self) -> str:
        """The name of the backend."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers may use the store that `next_rendezvous` returned."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousResult:
        """Wait until enough nodes are here; raises RendezvousError, and each of its kinds."""

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether nobody can join any more."""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """Let nobody join any more."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many nodes came late and wait for the next round."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """The id of the job."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Let go of everything; True if that went well."""


@dataclass(init=False, repr=False, eq=False)
class RendezvousParameters:
    """What a backend needs to make its handler."""

    backend: str
    endpoint: str
    run_id: str
    min_nodes: int
    max_nodes: int
    local_addr: str | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def __init__(  # noqa: PLR0917 - the order of the API
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **config: Any,
    ) -> None:
        """Raises ValueError for an empty backend, and for node counts that no job can have."""
        if not backend:
            raise ValueError("the rendezvous backend must have a name")
        if min_nodes < 1:
            raise ValueError(f"min_nodes is {min_nodes}; a rendezvous needs at least 1 node")
        if max_nodes < min_nodes:
            raise ValueError(f"max_nodes is {max_nodes}, below min_nodes, which is {min_nodes}")
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr = min_nodes, max_nodes, local_addr
        self.config = config

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the configuration."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:  # noqa: FBT001 - as in the API
        """A value as truth; raises ValueError for one that is neither."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).lower() if isinstance(value, str | int) else ""
        if word not in _TRUE | _FALSE:
            raise ValueError(f"rendezvous option {key} is {value!r}; it must be a boolean, as true or false")
        return word in _TRUE

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """A value as a whole number; raises ValueError for one that is none."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"rendezvous option {key} is {value!r}; it must be a whole number") from error
