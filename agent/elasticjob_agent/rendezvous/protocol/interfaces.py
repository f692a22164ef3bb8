"""The interfaces between the rendezvous and its node: the workers, the kept steps and the outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase, Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api.exit_codes import ExitCode, exit_code_of
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState
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


class KeepPort(Protocol):
    """The steps that this node keeps in memory, for the training after the next loss."""

    on_change: Callable[[], None]
    """Called after each change of a restore's phase, and when a node that leaves is needed no more."""

    persists: bool = False
    """Whether steps are written to a shared directory, also the last ones before all nodes end."""

    linger_s: float = 0.0
    """How long a node that leaves serves its steps at most, after its workers have stopped."""

    @property
    def holdings(self) -> HoldingsRecord | None:
        """The parts that this node has, as last known; None if it has no keeper."""

    async def seal(self) -> None:
        """Take in all that the stopped workers have published, so that `holdings` has it.

        Returns after a short time, whatever the keeper does: the round waits for this.
        """

    def observe(self, me: Member, *, link_secret: bytes | None, leads: bool) -> None:
        """Take in this node's session, the secret of the job's agents if it is known, and whether this node leads."""

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Return how far this node is with the step that this state restores; none of its workers runs."""

    def report_start(self) -> None:
        """Allow the keeper to drop and copy steps: the workers of the round have started."""

    def lingers(self, state: RendezvousState) -> bool:
        """Return whether this node, which ends and runs no worker, has something left to do for its steps.

        Other nodes may still need them. If all nodes end, the last steps are written to the shared directory.
        """


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a node's part in the job."""

    code: int
    detail: str
    state: RendezvousState | None = None

    @classmethod
    def of_failed(cls, state: RendezvousState, failures: Mapping[FailureKey, WorkerFailure]) -> "Outcome":
        """Return that of a failed job: the exit code of the root cause if it is a worker of this node."""
        if state.cause is Cause.JOIN_TIMEOUT:
            return cls(ExitCode.JOIN_TIMEOUT, state.message, state)
        own = failures.get(state.root_failure) if state.root_failure is not None else None
        code = ExitCode.PEER_FAILED if own is None else exit_code_of(own.exit_code)
        return cls(code, state.message, state)
