"""The interfaces between the rendezvous and its node: the workers and the outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_api.runtime_config import RuntimeConfig


class WorkersPort(Protocol):
    """The workers of this node as a group."""

    on_change: Callable[[], None]
    """Called after each change of `phase` and each new failure."""

    @property
    def phase(self) -> Workers:
        """The state of the group."""

    @property
    def failures(self) -> Mapping[FailureKey, WorkerFailure]:
        """Failures that no stop of ours caused, since the last start, in order."""

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        """Start all workers; a worker that cannot be started is a failure, not an exception."""

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        """Begin to stop all workers, and call `on_change` when none is left. A second call may shorten the grace."""

    def renew_master_port(self) -> int:
        """Reserve a new port for rank 0 of the next round, and release the previous one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a node's part in the job."""

    code: int
    detail: str
    state: RendezvousState | None = None
