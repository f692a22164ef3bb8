"""Whether the active round must end, and why. For a failed worker its own agent opens the round.

The order matters. Success is tested before all other rules, missing members before changes of the spec, joiners last.
No rule opens a round with the same members for no reason: joiners would then open rounds for ever. A property test
checks that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView


@dataclass(frozen=True, slots=True)
class Trigger:
    """The reason for a new round."""

    cause: Cause
    detail: str


def all_completed(view: RendezvousView, spec: SpecRecord, state: RendezvousState) -> bool:
    """Whether every member is done, or one with that success policy."""
    done = [view.has_completed(state.round, member) for member in state.members]
    return any(done) if spec.success_policy == "AnyWorker" else all(done)


def find_trigger(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, *, grace_members: frozenset[Member] = frozenset()
) -> Trigger | None:
    """Return a reason to end the active round now, joiners apart; `grace_members` get time to come back."""
    owned = view.current_nodes()
    for member in state.members:
        if member in grace_members or view.has_completed(state.round, member):
            continue
        if (trigger := _missing(view, owned, state.round, member)) is not None:
            return trigger
    if spec.restart_id != state.restart_id:
        return Trigger(Cause.RESTART_REQUESTED, f"restart {spec.restart_id} was requested")
    wanted = spec.sizes.largest(spec.target_size)  # 0 if no number is allowed
    if 0 < wanted < len(state.members) and not _any_completed(view, state):
        return Trigger(Cause.SCALED_DOWN, f"{wanted} of {len(state.members)} nodes are wanted")
    return None


def _missing(view: RendezvousView, owned: Mapping[Member, NodeEntry], round_: int, member: Member) -> Trigger | None:
    node = view.nodes.get(member)
    name = node.record.pod if node else f"slot {member.slot}"
    if view.has_left(round_, member):
        return Trigger(Cause.NODE_LEFT, f"{name} left")
    if view.is_lost(round_, member):
        tombstone = view.tombstones.get(member)
        return Trigger(Cause.NODE_LOST, f"{name} was lost" + (f" ({tombstone.reason})" if tombstone else ""))
    return None if member in owned else _lost_slot(view, member, name)


def _lost_slot(view: RendezvousView, member: Member, name: str) -> Trigger:
    owner = view.spec.owner(member.slot) if view.spec else None
    node = view.nodes.get(member)
    if owner is None or node is None:
        return Trigger(Cause.SCALED_DOWN, f"{name} no longer owns its slot")
    # It has not reported that it leaves, but it will: the operator replaces a pod that is deleted or has failed.
    by = "a newer session of its own" if owner.pod == node.record.pod else owner.pod
    return Trigger(Cause.NODE_LEFT, f"{name} is replaced by {by}")


def joiners(view: RendezvousView, spec: SpecRecord, state: RendezvousState) -> list[NodeEntry]:
    """Return the nodes outside the active round that a new round would include."""
    if _any_completed(view, state):
        return []
    owned, inside = view.current_nodes(), {*state.members, *_unlisted(view)}
    waiting = [n for m, n in owned.items() if m not in inside and not n.record.leaving and m not in view.tombstones]
    count = spec.sizes.largest(min(len(state.members) + len(waiting), spec.target_size))
    room = count - len(state.members)
    return sorted(waiting, key=lambda node: node.member.slot)[: max(room, 0)]


def _unlisted(view: RendezvousView) -> set[Member]:
    """Return the nodes that still wait for the shared directory: a round with one might have to wait for it, too."""
    return {member for member, record in view.holdings.items() if record.has_listed is False}


def joiners_fill(view: RendezvousView, spec: SpecRecord, state: RendezvousState) -> bool:
    """Whether the joiners bring the round to the desired size, so that waiting gains nothing."""
    return len(state.members) + len(joiners(view, spec, state)) >= spec.target_size


def _any_completed(view: RendezvousView, state: RendezvousState) -> bool:
    return any(view.has_completed(state.round, member) for member in state.members)
