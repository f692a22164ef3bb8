"""PURE: whether the active round must end, and why. A round over a worker's own failure is opened by its agent.

Order matters: success is tested before every other rule, a member that is missing before wishes, and joiners
last. No rule here opens a round whose result would have the same members for no reason. That would be the joiners'
livelock, which a property test excludes.
"""

from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol import replica_sizes, verdict
from elasticjob_agent.rendezvous.protocol.view import LiveNode, View
from elasticjob_api.records import Slots
from elasticjob_api.rendezvous_state import Cause, Member, World


@dataclass(frozen=True, slots=True)
class Opening:
    """Why a new round begins."""

    cause: Cause
    detail: str


def all_done(view: View, spec: Slots, world: World) -> bool:
    """Success: every member is done (or one, with that policy)."""
    done = [(world.round, member) in view.done for member in world.members]
    return any(done) if spec.success_policy == "AnyWorker" else all(done)


def reason_to_open(
    view: View, spec: Slots, world: World, *, excused: frozenset[Member] = frozenset()
) -> Opening | None:
    """A reason to end the active round now, joiners apart; `excused` are given time to come back."""
    owned = view.owned()
    for member in world.members:
        if (world.round, member) in view.done or member in excused:
            continue
        if (opening := _missing(view, owned, member)) is not None:
            return opening
    if spec.restart_id != world.restart_id:
        return Opening(Cause.RESTART_REQUESTED, f"restart {spec.restart_id} was requested")
    if 0 < (wanted := replica_sizes.wanted(spec)) < len(world.members) and not _anyone_done(view, world):
        return Opening(Cause.SCALED_DOWN, f"{wanted} of {len(world.members)} nodes are wanted")
    return None


def _missing(view: View, owned: dict[Member, LiveNode], member: Member) -> Opening | None:
    node = view.nodes.get(member)
    name = node.record.pod if node else f"slot {member.slot}"
    if verdict.has_left(view, member):
        return Opening(Cause.NODE_LEFT, f"{name} left")
    if verdict.is_lost(view, member):
        gone = view.gone.get(member)
        return Opening(Cause.NODE_LOST, f"{name} was lost" + (f" ({gone.reason})" if gone else ""))
    return None if member in owned else _disowned(view, member, name)


def _disowned(view: View, member: Member, name: str) -> Opening:
    owner = view.spec.owner(member.slot) if view.spec else None
    node = view.nodes.get(member)
    if owner is None or node is None:
        return Opening(Cause.SCALED_DOWN, f"{name} no longer owns its slot")
    # It has not said so yet, but it goes: the operator replaces what is deleted or has failed.
    by = "a newer stay of its own" if owner.pod == node.record.pod else owner.pod
    return Opening(Cause.NODE_LEFT, f"{name} is replaced by {by}")


def joiners(view: View, spec: Slots, world: World) -> list[LiveNode]:
    """Nodes outside the active round that a new round would include."""
    if _anyone_done(view, world):
        return []
    owned, inside = view.owned(), set(world.members)
    waiting = [n for m, n in owned.items() if m not in inside and not n.record.leaving and m not in view.gone]
    count = replica_sizes.fitting(spec, min(len(world.members) + len(waiting), replica_sizes.wanted(spec)))
    room = count - len(world.members)
    return sorted(waiting, key=lambda node: node.member.slot)[: max(room, 0)]


def joiners_fill(view: View, spec: Slots, world: World) -> bool:
    """The joiners bring the round to what is wanted, so nothing is gained by waiting."""
    return len(world.members) + len(joiners(view, spec, world)) >= replica_sizes.wanted(spec)


def _anyone_done(view: View, world: World) -> bool:
    return any((world.round, member) in view.done for member in world.members)
