"""What an agent knows of its workers: the records of the API, and nothing that acts on them."""

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
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: "WorkerState") -> bool:
        """Whether processes are there in this state."""
        return state in {WorkerState.HEALTHY, WorkerState.UNHEALTHY}


class Worker:
    """One worker; `id` is what `_start_workers` gave it, for the local agent its pid."""

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
        self.local_rank = local_rank
        self.global_rank = global_rank
        self.role_rank = role_rank
        self.world_size = world_size
        self.role_world_size = role_world_size

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
        self.workers = [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        self.store: Store | None = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """How the workers of one agent are, or ended; maps are by global rank and never overlap.

    Workers that the agent itself stopped are in neither.
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether the group failed."""
        return self.state is WorkerState.FAILED
