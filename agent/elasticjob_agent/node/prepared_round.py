"""The knowledge that a node's keeper has of one active state, and the tasks that prepare it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import RendezvousState


@dataclass(slots=True)
class PreparedRound:
    """One active state, as far as the keeper knows it."""

    state: RendezvousState
    rank: int | None
    phase: RestorePhase = RestorePhase.PREPARING
    variables: dict[str, str] = field(default_factory=dict)
    """The variables of Keep for the workers of the round."""
    not_kept: str = ""
    """Why this node keeps no step of the round, as a sentence without its full stop; empty if it keeps them."""
    has_started: bool = False
    """Whether its workers have started on this node."""
    awaited_keeper: str = ""
    """Why the keeper does not work that is to look for the persisted step, as a sentence without its full stop."""
    task: asyncio.Task[None] | None = None
    peers: asyncio.Task[None] | None = None

    @property
    def restoring(self) -> int | None:
        """Return the number of the step for which the workers of this node wait, None if they wait for none."""
        if self.rank is None or self.phase not in {RestorePhase.PREPARING, RestorePhase.FETCHING}:
            return None
        try:
            step = self.state.step_to_restore()
        except RecordError:  # the task finds it, too
            return None
        return None if step is None else step.number


def cancel(task: asyncio.Task[Any] | None) -> None:
    """End a task, if there is one."""
    if task is not None:
        task.cancel()
