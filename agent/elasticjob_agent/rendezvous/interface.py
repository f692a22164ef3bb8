"""The interface of a rendezvous in torch elastic's form: the handler, its results, its parameters.

`SimpleElasticAgent` works with any handler; this interface does not depend on etcd. Our further methods are in the
protocol `JobRendezvous` of `rendezvous.job_rendezvous`.
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
    """The address of rank 0 for the workers of a round."""

    master_addr: str
    master_port: int


@dataclass(frozen=True)
class RendezvousInfo:
    """A completed rendezvous; also unpacks into the older triple (store, rank, world_size)."""

    store: Store | None
    rank: int
    """The node's group rank."""
    world_size: int
    """The number of nodes."""
    bootstrap_store_info: RendezvousStoreInfo | None = None
    assignment: Assignment | None = None
    """All ranks of this node's workers, if the rendezvous assigns them; then no store is needed."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.store, self.rank, self.world_size))


def as_rendezvous_info(result: Any) -> RendezvousInfo:
    """Return the result of any handler as ours: from the older triple, or from any object with torch's fields."""
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
        """Return the name of the backend."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers may use the store that `next_rendezvous` returned."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousResult:
        """Wait until enough nodes have joined; raise RendezvousError or one of its kinds."""

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether no node can join any more."""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """Close the rendezvous: no node can join any more."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """Return how many nodes joined late and wait for the next round."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """Return the id of the job."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Release all resources; return True if that succeeded."""


@dataclass(init=False, repr=False, eq=False)
class RendezvousParameters:
    """The parameters from which a backend creates its handler."""

    backend: str
    endpoint: str
    run_id: str
    min_nodes: int
    max_nodes: int
    local_addr: str | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def __init__(  # noqa: PLR0917 - the order of torch's API
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **config: Any,
    ) -> None:
        """Raise ValueError for an empty backend, and for invalid node counts."""
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
        """Return a value of the configuration."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:  # noqa: FBT001 - as in torch's API
        """Return a value as a boolean; raise ValueError for any other value."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).lower() if isinstance(value, str | int) else ""
        if word not in _TRUE | _FALSE:
            raise ValueError(f"rendezvous option {key} is {value!r}; it must be a boolean, as true or false")
        return word in _TRUE

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """Return a value as a whole number; raise ValueError for any other value."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"rendezvous option {key} is {value!r}; it must be a whole number") from error
