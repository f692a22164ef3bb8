"""A node without a keeper gives up no step that others can read on disk."""

import logging

import pytest

from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_sources
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase

ME = Member(0, "00000000")


def active(restore: str = "", sources: str = "") -> RendezvousState:
    return RendezvousState(
        phase=RoundPhase.ACTIVE, round=2, nonce="n2", members=(ME,), run="run", restore=restore, sources=sources
    )


def test_a_persisted_step_is_waited_for_and_that_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    keep, state = NoKeep(), active("1.n1.7.1", persisted_sources("run"))
    keep.observe(ME, link_secret=None, leads=False)
    with caplog.at_level(logging.WARNING):
        assert [keep.restore_phase(state) for _ in range(2)] == [RestorePhase.PREPARING] * 2
    (line,) = caplog.messages
    assert "step 7 is in keep.persistTo, and this agent has no --keep-dir; end it, or start it with --keep-dir" in line


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        pytest.param(active(), RestorePhase.NOT_NEEDED, id="no step is restored"),
        pytest.param(active("1.n1.7.1"), RestorePhase.FAILED, id="a step in memory"),
        pytest.param(active("a step"), RestorePhase.FAILED, id="it cannot be read"),
    ],
)
def test_no_other_step_is_waited_for(state: RendezvousState, phase: RestorePhase) -> None:
    assert NoKeep().restore_phase(state) is phase
