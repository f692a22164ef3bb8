"""The members of a round that were lost. This is for messages only, never for a count."""

from elasticjob_api.rendezvous_state import Membership
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.last_seen import LostNode


def lost_nodes(view: RendezvousView, membership: Membership) -> tuple[LostNode, ...]:
    """Return the lost members of `membership`: those with a tombstone first, then by rank."""
    found = [
        LostNode(member, rank, membership.round, view.tombstones.get(member))
        for rank, member in enumerate(membership.members)
        if view.is_lost(membership.round, member)
    ]
    return tuple(sorted(found, key=lambda lost: (lost.tombstone is None, lost.rank)))
