"""One process of members that keep steps, for `crowd`: as `benchmarks.rendezvous.members`, and each holds two parts.

The parts are those of a step of the present round: its own one, and a copy of its neighbour's. So each record has its
real size, and each round restores a step. Nothing is copied: that takes no request to etcd.
"""

import asyncio
import sys

from benchmarks.rendezvous.members import Members, prepare, serve
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from testing.scripted_keep import ScriptedKeep

_PORT, _STEP = 40_000, 1200


class TwoParts(ScriptedKeep):
    """The keeper of one member: after each start it holds its own part and one of its neighbour's."""

    def __init__(self, slot: int) -> None:
        super().__init__()
        self._slot = slot
        self.record = HoldingsRecord(port=_PORT)

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Return that all is here, and publish a step in that round."""
        if state.phase is RoundPhase.ACTIVE:
            parts = len(state.members)
            step = KeptStep(Lineage(state.round, state.nonce), _STEP, parts)
            held = frozenset({self._slot % parts, (self._slot + 1) % parts})
            self.published = HoldingsRecord(port=_PORT, steps={step: held})
        return super().restore_phase(state)


class KeepingMembers(Members):
    """`count` members with a keeper each."""

    def _keep(self, slot: int) -> KeepPort:
        return TwoParts(slot)


if __name__ == "__main__":
    asyncio.run(serve(KeepingMembers(*prepare(sys.argv[1:]))))
