"""The newest rendezvous state that one node has received, also from before a wipe of etcd.

Within one store the state only grows in (round, phase). After a wipe or a restore the watch may show no state, or a
lower one that a slower agent has written back. Then the remembered state counts until the store has caught up. A state
that vanishes from the same store means that the job was deleted.
"""

from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Membership, RendezvousState, RoundPhase, decode_state
from elasticjob_etcd.interface import KeyValue

NO_STATE = 0
UNKNOWN = -1
"""A revision that no key has, so every comparison with it fails."""


def is_newer(mine: RendezvousState | None, theirs: RendezvousState | None) -> bool:
    """Whether `mine` is newer: by round, then by phase, then with a verdict over without one."""
    if mine is None or theirs is None:
        return mine is not None
    return (mine.order, mine.has_verdict) > (theirs.order, theirs.has_verdict)


@dataclass(slots=True)
class LastKnownState:
    """The knowledge that one node has of the rendezvous state."""

    state: RendezvousState | None = None
    """The newest state received; None before the first, and after the job was deleted."""
    revision: int = NO_STATE
    """The revision of `state` in the current store."""
    membership: Membership | None = None
    """The members of the last active round that was received."""
    deleted: bool = False
    observed_here: bool = False
    """Whether a state was received from the current store. If it vanishes then, the job was deleted."""

    @property
    def ended(self) -> bool:
        """Whether a final state was received, or the job was deleted."""
        return self.deleted or (self.state is not None and self.state.phase.is_final)

    def observe(self, kv: KeyValue | None) -> bool:
        """Take in the state's key as the watch shows it, and return whether it changed. Raises RecordError."""
        revision = NO_STATE if kv is None else kv.mod_revision
        if revision == self.revision:
            return False
        if kv is None:
            return self._observe_none()
        try:
            shown = decode_state(kv.value)
        except RecordError:
            self.revision = revision
            raise
        return self._observe_state(shown, revision)

    def _observe_state(self, shown: RendezvousState, revision: int) -> bool:
        self.observed_here = True
        if is_newer(self.state, shown):
            return False  # a slower agent wrote it back; it is overwritten soon
        self.state, self.revision = shown, revision
        if shown.phase is RoundPhase.ACTIVE:
            self.membership = Membership(shown.round, shown.members)
        return True

    def _observe_none(self) -> bool:
        if self.observed_here:
            self.state, self.revision, self.deleted = None, NO_STATE, True
        return self.observed_here

    def forget_revisions(self) -> None:
        """Forget revisions: the store is another one, or an older version of the same."""
        self.revision, self.observed_here = UNKNOWN, False
