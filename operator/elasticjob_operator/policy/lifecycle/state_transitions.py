"""PURE: the worlds that the operator writes: suspended, resumed, failed, and succeeded out of suspended.

Each keeps what the rounds have counted and takes a new nonce. Resuming carries "verdict given": nothing of the
life before is judged. None of them is ever made from a final world.
"""

from dataclasses import replace

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.policy.lifecycle.job_failure import JobFailure


def suspended_state(world: RendezvousState, nonce: str) -> RendezvousState:
    """The same round, without members, waiting."""
    return replace(_without_members(world), state=RoundPhase.SUSPENDED, nonce=nonce, cause=Cause.SUSPENDED, message="")


def resumed_state(world: RendezvousState, nonce: str) -> RendezvousState:
    """The next round, with nothing left to judge."""
    opened = replace(_without_members(world), state=RoundPhase.FORMING, round=world.round + 1, nonce=nonce)
    return replace(opened, cause=Cause.RESUMED, message="", has_verdict=True, loss_grace_spent=False)


def succeeded_state(world: RendezvousState, nonce: str) -> RendezvousState:
    """The end of a job that had finished when it was suspended."""
    return replace(_without_members(world), state=RoundPhase.SUCCEEDED, nonce=nonce, cause=Cause.SUCCEEDED, message="")


def failed_state(world: RendezvousState | None, spec: SpecRecord, failure: JobFailure, nonce: str) -> RendezvousState:
    """The end by the operator's verdict; a job that never had a world gets its first and last one."""
    base = (
        _without_members(world)
        if world
        else RendezvousState(state=RoundPhase.FORMING, round=max(1, spec.first_round), nonce=nonce)
    )
    restarts = world.restarts if world else spec.first_restarts
    ended = replace(base, state=RoundPhase.FAILED, nonce=nonce, restarts=restarts)
    return replace(ended, cause=Cause.OPERATOR, message=failure.detail)


def _without_members(world: RendezvousState) -> RendezvousState:
    return replace(world, members=(), master="", nprocs="", roles="")


def finished_before_suspension(view: RendezvousView) -> bool:
    """Every member of the suspended round had finished: there is nothing to resume."""
    world, membership = view.world, view.membership
    if (
        world is None
        or world.state is not RoundPhase.SUSPENDED
        or membership is None
        or membership.round != world.round
    ):
        return False
    return bool(membership.members) and all(view.has_completed(world.round, member) for member in membership.members)
