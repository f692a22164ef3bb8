"""The agents of the slots: only that of a slot's own pod counts."""

from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import RendezvousView


def slot_agents(view: RendezvousView) -> dict[int, Member]:
    """Return slot → newest session of the live agent in the slot's own pod; sessions with a tombstone are left out."""
    names = view.owners()
    sessions = sorted(view.nodes.items(), key=lambda item: item[1].create_revision)
    return {
        member.slot: member
        for member, node in sessions
        if names.get(member.slot) == node.record.pod and member not in view.tombstones
    }
