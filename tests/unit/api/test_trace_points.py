"""The names of the moments in a recovery trace."""

from typing import get_args

from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.trace_points import LEADER_WROTE, SAW, TracePoint


def test_every_phase_has_its_points() -> None:
    assert {phase: f"saw {phase.value}" for phase in RoundPhase} == SAW
    written = {phase: f"closer wrote {phase.value}" for phase in RoundPhase if phase is not RoundPhase.SUSPENDED}
    assert written == LEADER_WROTE
    assert {*SAW.values(), *LEADER_WROTE.values()} < {*get_args(TracePoint)}
