"""PURE: the world as one node knows it: what its watch shows, and what it has seen before, which it never forgets.

Within one store the world only grows in (round, state). After a wipe or a restore the watch may show none, or a lower
one that a lagging agent has written back. Then the remembered one counts until the store has caught up. A world that is
gone in the same store means that the job was deleted.
"""

from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Membership, RendezvousState, RoundPhase, decode_state
from elasticjob_etcd.interface import KeyValue

NO_STATE = 0
UNKNOWN = -1
"""A revision that no key has: whatever compares with it is refused."""


def is_newer(mine: RendezvousState | None, theirs: RendezvousState | None) -> bool:
    """Whether `mine` is further on: by round, then state, then a verdict over none."""
    if mine is None or theirs is None:
        return mine is not None
    return (mine.order, mine.has_verdict) > (theirs.order, theirs.has_verdict)


@dataclass(slots=True)
class LastKnownState:
    """One node's knowledge of the world."""

    world: RendezvousState | None = None
    """The furthest that was ever seen; None before the first, and when the job was deleted."""
    revision: int = NO_STATE
    """At which it was written, in the store as it is now."""
    membership: Membership | None = None
    """The members of the last active round that was seen."""
    deleted: bool = False
    observed_here: bool = False
    """A world was seen in the store as it is now: if it vanishes, the job was deleted."""

    @property
    def ended(self) -> bool:
        """A final state was seen, or the job was deleted."""
        return self.deleted or (self.world is not None and self.world.state.is_final)

    def observe(self, kv: KeyValue | None) -> bool:
        """Take in the world's key as the watch shows it; True when that is news. Raises RecordError."""
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
        if is_newer(self.world, shown):
            return False  # written back by one that lags, and soon overwritten
        self.world, self.revision = shown, revision
        if shown.state is RoundPhase.ACTIVE:
            self.membership = Membership(shown.round, shown.members)
        return True

    def _observe_none(self) -> bool:
        if self.observed_here:
            self.world, self.revision, self.deleted = None, NO_STATE, True
        return self.observed_here

    def store_reset(self) -> None:
        """The store is another one, or an older state of it: revisions mean nothing any more."""
        self.revision, self.observed_here = UNKNOWN, False
