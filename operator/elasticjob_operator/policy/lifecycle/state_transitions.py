"""The rendezvous states that the operator writes: suspended, resumed, failed, and succeeded after suspended.

Each keeps the counters of the rounds and has a new nonce. A resumed state has "verdict given", so that nothing from
before the suspension gets a verdict. None of them is ever made from a final state.
"""

from dataclasses import replace

from elasticjob_api.job_failure import JobFailure
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase, next_round
from elasticjob_api.rendezvous_view import RendezvousView


def suspended_state(state: RendezvousState, nonce: str) -> RendezvousState:
    """Return the state of a suspended job: the same round without members. Its nonce is in the history, if any."""
    base = replace(_without_members(state), history=state.history_of_next_round())
    return replace(base, phase=RoundPhase.SUSPENDED, nonce=nonce, cause=Cause.SUSPENDED, message="")


def resumed_state(state: RendezvousState, nonce: str) -> RendezvousState:
    """Return the state of a resumed job: the next round, which needs no verdict about earlier ones."""
    return replace(next_round(state, nonce, Cause.RESUMED), has_verdict=True)


def succeeded_state(state: RendezvousState, nonce: str) -> RendezvousState:
    """Return the final state of a job that had finished when it was suspended."""
    return replace(_without_members(state), phase=RoundPhase.SUCCEEDED, nonce=nonce, cause=Cause.SUCCEEDED, message="")


def failed_state(state: RendezvousState | None, spec: SpecRecord, failure: JobFailure, nonce: str) -> RendezvousState:
    """Return the final state for the operator's verdict; a job without a state gets its first and last one."""
    base = (
        _without_members(state)
        if state
        else RendezvousState(phase=RoundPhase.FORMING, round=max(1, spec.first_round), nonce=nonce)
    )
    restarts = state.restarts if state else spec.first_restarts
    ended = replace(base, phase=RoundPhase.FAILED, nonce=nonce, restarts=restarts)
    return replace(ended, cause=Cause.OPERATOR, message=failure.detail)


def _without_members(state: RendezvousState) -> RendezvousState:
    return replace(state, members=(), master="", nprocs="", roles="", restore="", sources="")


def finished_before_suspension(view: RendezvousView) -> bool:
    """Return whether every member of the suspended round had finished, so that nothing is left to resume."""
    state, membership = view.state, view.membership
    if (
        state is None
        or state.phase is not RoundPhase.SUSPENDED
        or membership is None
        or membership.round != state.round
    ):
        return False
    return bool(membership.members) and all(view.has_completed(state.round, member) for member in membership.members)
