"""The methods of a rendezvous beyond `RendezvousHandler`, when it knows the whole job.

Such a rendezvous carries all ranks and the job-wide count of restarts. It receives the state of this node's workers and
orders them to stop. It alone decides how a failure is charged and when the job has ended. No method here waits; all may
be called from any thread.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elasticjob_agent.rendezvous.interface import RendezvousHandler
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_api.records import WorkerFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """The node's own part of the job; the same in every round."""

    role: str
    local_world_size: int
    max_restarts: int
    local_addr: str | None = None


@dataclass(frozen=True, slots=True)
class StopOrder:
    """The workers of the present round must stop: the world has changed."""

    grace_s: float
    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFailure:
    """One worker of this node that ended badly by itself, or could not be started."""

    local_rank: int
    exit_code: int
    """As in `subprocess`: negative is a signal."""
    signal: str = ""
    message: str = ""
    pid: int = 0
    startup: bool = False
    """It ended soon after its start; it may well fail again at once."""
    record: WorkerFailure | None = None
    """All that is known of it, from who knows more than the fields above; then those count for nothing."""


class JobRendezvous(RendezvousHandler):
    """A rendezvous that knows the job; `shutdown` leaves it, and closes nothing."""

    @abc.abstractmethod
    def offer(self, node: NodeInfo, on_change: Callable[[], None]) -> None:
        """Before the first `next_rendezvous`: who this node is, and whom to call after each change of what is below."""

    @abc.abstractmethod
    def stop_order(self) -> StopOrder | None:
        """The order to stop the workers that run, if there is one."""

    @abc.abstractmethod
    def outcome(self) -> Outcome | None:
        """Return how this node's part in the job has ended; None while it has not."""

    @abc.abstractmethod
    def workers_failed(self, failures: Sequence[LocalFailure]) -> None:
        """These failed by themselves; the others may still run. The next round opens at once."""

    @abc.abstractmethod
    def workers_succeeded(self) -> None:
        """All ended well, and nothing of them is left."""

    @abc.abstractmethod
    def workers_stopped(self) -> None:
        """None of them runs any more."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Tell the others that this node goes; `stop_order` follows as soon as they know."""
