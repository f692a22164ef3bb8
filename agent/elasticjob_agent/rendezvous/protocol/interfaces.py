"""The interfaces between the rendezvous and its node: the workers, and the order to leave."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.transactions import FailureRecord
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_api.runtime_config import RuntimeConfig


class WorkersPort(Protocol):
    """The workers of this node as a group."""

    on_change: Callable[[], None]
    """Called after every change of `phase` and every new failure."""

    @property
    def phase(self) -> Workers:
        """How they are."""

    @property
    def failures(self) -> list[FailureRecord]:
        """Those that failed by themselves since the last start, in order."""

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        """Start them all; what cannot be started is a failure, not an exception."""

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        """Begin to stop them; `on_change` when none is left. A second call may shorten the grace."""

    def renew_master_port(self) -> int:
        """Hold a fresh port for the next round's rank 0, and let go of the last."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a node's part in the job ended."""

    code: int
    detail: str
    world: RendezvousState | None = None
