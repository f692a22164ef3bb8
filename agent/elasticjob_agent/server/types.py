"""An agent's records of its workers, as in the API; nothing here acts on them."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.rendezvous.store import Store

if TYPE_CHECKING:
    from elasticjob_agent.server.spec import WorkerSpec


class WorkerState(str, Enum):  # noqa: UP042 - its text stays `WorkerState.HEALTHY`, as in the API
    """States of a group of workers."""

    UNKNOWN = "UNKNOWN"
    """The agent does not know."""
    INIT = "INIT"
    """Not started yet in this round."""
    HEALTHY = "HEALTHY"
    """All run."""
    UNHEALTHY = "UNHEALTHY"
    """They run, but not as they should."""
    STOPPED = "STOPPED"
    """The agent has stopped them."""
    SUCCEEDED = "SUCCEEDED"
    """All have ended with 0."""
    FAILED = "FAILED"
    """At least one has ended with another code or by a signal."""

    @staticmethod
    def is_running(state: "WorkerState") -> bool:
        """Return whether processes exist in this state, healthy or not."""
        return state in {WorkerState.HEALTHY, WorkerState.UNHEALTHY}


class Worker:
    """One worker; `id` is the value from `_start_workers`, for the local agent its pid."""

    __slots__ = ["global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size"]

    def __init__(
        self,
        local_rank: int,
        global_rank: int = -1,
        role_rank: int = -1,
        world_size: int = -1,
        role_world_size: int = -1,
    ) -> None:
        self.id: Any = None
        """None until it is started."""
        self.local_rank = local_rank
        """Its rank on this node, from 0; the other fields are -1 until a rendezvous has assigned ranks."""
        self.global_rank = global_rank
        """Its rank among all workers, from 0."""
        self.role_rank = role_rank
        """Its rank among the workers of its role, from 0."""
        self.world_size = world_size
        """The number of workers."""
        self.role_world_size = role_world_size
        """The number of workers with its role."""

    def __str__(self) -> str:
        return (
            f"local_rank={self.local_rank},global_rank={self.global_rank},role_rank={self.role_rank},"
            f"world_size={self.world_size},role_world_size={self.role_world_size}"
        )

    __repr__ = __str__


class WorkerGroup:
    """The workers of one agent; the live object, changed by its agent alone."""

    __slots__ = [
        "group_rank",
        "group_world_size",
        "master_addr",
        "master_port",
        "spec",
        "state",
        "store",
        "workers",
    ]

    def __init__(self, spec: "WorkerSpec") -> None:
        self.spec = spec
        """The spec from which they were started."""
        self.workers = [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        """The workers by local rank."""
        self.store: Store | None = None
        """The key-value store of the round; None before the first, like the fields below."""
        self.group_rank: int | None = None
        """The rank of this node among the nodes, from 0."""
        self.group_world_size: int | None = None
        """The number of nodes."""
        self.master_addr: str | None = None
        """The address on which rank 0 listens."""
        self.master_port: int | None = None
        """The TCP port on which rank 0 listens."""
        self.state = WorkerState.INIT
        """Their state at the agent's last check."""


@dataclass
class RunResult:
    """The state or end of the workers of one agent; maps are by global rank and never overlap.

    Workers that the agent itself stopped are in neither.
    """

    state: WorkerState
    """The state of the group."""
    return_values: dict[int, Any] = field(default_factory=dict)
    """Return values of functions, None for commands; only if all have succeeded."""
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    """The failures, by global rank."""

    def is_failed(self) -> bool:
        """Return whether the group failed, that is, `state` is FAILED."""
        return self.state is WorkerState.FAILED
