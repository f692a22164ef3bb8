"""PURE: which members of a round were lost, as the closer judges it: for the words about a loss, never for a count.

A member is lost if it has no key, or proof against it, and has neither left nor finished.
"""

from dataclasses import dataclass

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member, Membership
from elasticjob_operator.model.rendezvous_view import RendezvousView


@dataclass(frozen=True, slots=True)
class LostNode:
    """A member that was lost, with its group rank and the round it was lost from."""

    member: Member
    rank: int
    round: int
    gone: Tombstone | None


def lost_nodes(view: RendezvousView, has_verdict: Membership) -> tuple[LostNode, ...]:
    """The members of `has_verdict` that are lost, those with proof first, then by rank."""
    found = [
        LostNode(member, rank, has_verdict.round, view.tombstones.get(member))
        for rank, member in enumerate(has_verdict.members)
        if _is_lost(view, has_verdict.round, member)
    ]
    return tuple(sorted(found, key=lambda lost: (lost.gone is None, lost.rank)))


def _is_lost(view: RendezvousView, round_: int, member: Member) -> bool:
    gone, node = view.tombstones.get(member), view.nodes.get(member)
    if view.has_completed(round_, member) or (gone is not None and gone.reason is TombstoneReason.LEFT):
        return False
    if node is not None and node.record.leaving:
        return False
    return node is None or gone is not None
