"""The methods of a rendezvous beyond `RendezvousHandler`, if it manages the whole job.

Such a rendezvous assigns all ranks and counts the restarts of the job. It receives the state of this node's workers and
orders them to stop. It alone decides how a failure is charged and when the job has ended. No method here blocks. All
may be called from any thread.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elasticjob_agent.rendezvous.interface import RendezvousHandler
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """The node's own data for the job; the same in every round."""

    role: str
    local_world_size: int
    max_restarts: int
    local_addr: str | None = None


@dataclass(frozen=True, slots=True)
class StopOrder:
    """An order to stop the workers of the current round: the rendezvous state has changed."""

    grace_s: float
    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFailure:
    """A worker of this node that failed by itself, or could not be started."""

    local_rank: int
    exit_code: int
    """As in `subprocess`: a negative number is a signal."""
    signal: str = ""
    message: str = ""
    pid: int = 0
    startup: bool = False
    """Whether it failed soon after its start, so that it may well fail again at once."""


class JobRendezvous(RendezvousHandler):
    """A rendezvous that manages the job; `shutdown` leaves the job, and closes nothing."""

    @abc.abstractmethod
    def offer(self, node: NodeInfo, on_change: Callable[[], None]) -> None:
        """Set this node's data and a callback for each change of the properties below; before `next_rendezvous`."""

    @abc.abstractmethod
    def stop_order(self) -> StopOrder | None:
        """Return the order to stop the running workers, if there is one."""

    @abc.abstractmethod
    def outcome(self) -> Outcome | None:
        """Return how this node's part in the job has ended; None before the end."""

    @abc.abstractmethod
    def workers_failed(self, failures: Sequence[LocalFailure]) -> None:
        """Report failures of workers; the others may still run. The next round opens at once."""

    @abc.abstractmethod
    def workers_succeeded(self) -> None:
        """Report that all workers succeeded, and none of their processes is left."""

    @abc.abstractmethod
    def workers_stopped(self) -> None:
        """Report that no worker runs any more."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Report to the other nodes that this one leaves; `stop_order` follows when they know."""
