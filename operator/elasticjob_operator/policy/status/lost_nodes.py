"""The members of a round that were lost, by the leader's rules. This is for messages only, never for a count.

A member is lost if it has no key or has a tombstone, and has neither left nor finished.
"""

from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Member, Membership
from elasticjob_operator.model.last_seen import LostNode
from elasticjob_operator.model.rendezvous_view import RendezvousView


def lost_nodes(view: RendezvousView, membership: Membership) -> tuple[LostNode, ...]:
    """Return the lost members of `membership`: those with a tombstone first, then by rank."""
    found = [
        LostNode(member, rank, membership.round, view.tombstones.get(member))
        for rank, member in enumerate(membership.members)
        if _is_lost(view, membership.round, member)
    ]
    return tuple(sorted(found, key=lambda lost: (lost.tombstone is None, lost.rank)))


def _is_lost(view: RendezvousView, round_: int, member: Member) -> bool:
    tombstone, node = view.tombstones.get(member), view.nodes.get(member)
    if view.has_completed(round_, member) or (tombstone is not None and tombstone.reason is TombstoneReason.LEFT):
        return False
    if node is not None and node.record.leaving:
        return False
    return node is None or tombstone is not None
