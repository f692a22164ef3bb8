"""A node's keeper as the rendezvous sees it, under the control of a test."""

from collections.abc import Callable

from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState


class ScriptedKeep(KeepPort):
    """A `KeepPort` with the holdings that the test gives it; it restores at once unless the test changes `phase`."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.record: HoldingsRecord | None = None
        self.published: HoldingsRecord | None = None
        """The record from the next seal on, if there is one."""
        self.phase = RestorePhase.COMPLETE
        self.is_needed = False
        """Whether other nodes need what this one has when it leaves."""
        self.starts = 0
        """How often the workers of a round have started."""

    @property
    def holdings(self) -> HoldingsRecord | None:
        """The record that the test gives."""
        return self.record

    async def seal(self) -> None:
        """Take in what is published."""
        self.record = self.published or self.record

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Return the phase that the test gives, if there is a step to restore."""
        return self.phase if state.restore else RestorePhase.NOT_NEEDED

    def observe(self, me: Member, *, link_secret: bytes | None, leads: bool) -> None:
        """Do nothing: it has no peers."""

    def report_start(self) -> None:
        """Count it."""
        self.starts += 1

    def lingers(self, _state: RendezvousState) -> bool:
        """Return what the test gives."""
        return self.is_needed

    def become(self, phase: RestorePhase) -> None:
        """Report this phase from now on."""
        self.phase = phase
        self.on_change()
