"""A node without a keeper: it holds no step, and can restore none."""

import contextlib
import logging

from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_to_restore
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState

log = logging.getLogger(__name__)


class NoKeep(KeepPort):
    """A node without a keeper."""

    def __init__(self) -> None:
        self.on_change = lambda: None
        self._me: Member | None = None
        self._waited_in = ""
        """The nonce of the last state in which this node has waited."""

    @property
    def holdings(self) -> None:
        """There are none."""

    async def seal(self) -> None:
        """Do nothing."""

    def observe(self, me: Member, *, link_secret: bytes | None, leads: bool) -> None:  # noqa: ARG002 - the interface's
        """Take in this node's session."""
        self._me = me

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Return that the step cannot be restored, if there is one; one that is on disk is never given up."""
        if not state.restore:
            return RestorePhase.NOT_NEEDED
        with contextlib.suppress(RecordError):
            if (persisted := persisted_to_restore(state)) is not None:
                self._log_waiting(state, persisted)
                return RestorePhase.PREPARING
        return RestorePhase.FAILED

    def _log_waiting(self, state: RendezvousState, persisted: PersistedStep) -> None:
        if self._me in state.members and self._waited_in != state.nonce:
            self._waited_in = state.nonce
            log.warning(
                "round %d: this node waits: step %d is in keep.persistTo, and this agent has no --keep-dir; "
                "end it, or start it with --keep-dir and --keep-persist-to",
                state.round,
                persisted.step.number,
            )

    def report_start(self) -> None:
        """Do nothing."""

    def lingers(self, _state: RendezvousState) -> bool:
        """Return False: it has nothing that others need."""
        return False
