"""The requests to a keeper about a rendezvous state, and the addresses from which it fetches a step; no I/O."""

from collections.abc import Iterable, Mapping

from elasticjob_agent.keep.keeper.messages import BeginRequest, JoinRequest, LingerRequest, PeerRecord, PeersRequest
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperEntry
from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_agent.rendezvous.protocol.keep.sources import parse_sources, persisted_to_restore
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase

_NEXT_RANKS = 4
"""A copy goes to the rank of the shift, or to one of the three after it."""


def lineage_of(state: RendezvousState) -> Lineage | None:
    """Return the lineage of an active state; None for another one; raise RecordError if it cannot be read."""
    return Lineage(state.round, state.nonce) if state.phase is RoundPhase.ACTIVE else None


def join_request(state: RendezvousState, me: Member, secret: bytes | None) -> JoinRequest:
    """Return the identity of this node's keeper; raise RecordError if the state cannot be read."""
    secret_text = "" if secret is None else secret.hex()
    return JoinRequest(state.run, me.token, secret_text, state.kept_history(), lineage_of(state))


def is_same_identity(one: JoinRequest, other: JoinRequest) -> bool:
    """Return whether a keeper that knows the first one also has the identity of the other one."""
    return (one.run, one.member, one.secret) == (other.run, other.member, other.secret)


def begin_request(state: RendezvousState, rank: int, settings: KeepSettings) -> BeginRequest:
    """Return the begin of an active round at the member of this rank; raise RecordError if it cannot be read."""
    place = ranks.assignment(state, rank)
    step, persisted = state.step_to_restore(), persisted_to_restore(state)
    # A node that cannot fetch the step reads it on disk, if it is there. So no other node may remove it.
    in_use = PersistedStep(state.run, step) if step is not None and persisted is None else persisted
    return BeginRequest(
        state.run,
        Lineage(state.round, state.nonce),
        state.kept_history(),
        step if persisted is None else None,
        older=state.older_history(),
        in_use="" if in_use is None else str(in_use),
        place=RoundPlace(rank, len(state.members), place.base_rank, place.nproc, place.world_size),
        shift=state.replica_shift(),
        copies=settings.copies,
        bandwidth=settings.bandwidth,
    )


def linger_request(state: RendezvousState, within_s: float) -> LingerRequest:
    """Return what a leaving node's keeper serves in this state; raise RecordError if it cannot be read."""
    return LingerRequest(state.kept_history(), lineage_of(state), within_s)


def members_to_find(state: RendezvousState, rank: int, copies: int) -> list[Member]:
    """Return the members whose records the one of this rank needs, in rank order.

    They are those to which it may copy its parts, and itself: a copy goes to another host than its own.
    """
    if not copies:
        return []
    size, shift = len(state.members), state.replica_shift()
    chosen = {(rank + k * shift + further) % size for k in range(1, 1 + copies) for further in range(_NEXT_RANKS)}
    return [state.members[other] for other in sorted(chosen | {rank})]


def are_reachable(members: Iterable[Member], keepers: Mapping[Member, KeeperEntry]) -> bool:
    """Return whether the address of each of these members is known."""
    return all(member in keepers and keepers[member].address.port for member in members)


def peers_request(state: RendezvousState, keepers: Mapping[Member, KeeperEntry], *, leads: bool) -> PeersRequest:
    """Return the members of an active round with the addresses that are known; raise RecordError."""
    leaving = [member for member, keeper in keepers.items() if keeper.is_leaving and member not in state.members]
    return PeersRequest(
        Lineage(state.round, state.nonce),
        tuple(_peer(member, keepers.get(member)) for member in state.members),
        leads=leads,
        leaving=tuple(_peer(member, keepers[member]) for member in sorted(leaving)) if leads else (),
    )


def _peer(member: Member, keeper: KeeperEntry | None) -> PeerRecord:
    if keeper is None or not keeper.address.port:
        return PeerRecord(member.token)
    return PeerRecord(member.token, keeper.address.host, keeper.address.port, keeper.machine)


def assigned_holders(state: RendezvousState, step: KeptStep, missing: Iterable[int]) -> dict[int, Member]:
    """Return the holder of each missing part that the state assigns; raise RecordError if it cannot be read."""
    holders = parse_sources(state.sources, step, state.members).holders or {}
    return {part: holders[part] for part in missing if part in holders}


def addresses_of(
    step: KeptStep,
    missing: Iterable[int],
    assigned: Mapping[int, Member],
    keepers: Mapping[Member, KeeperEntry],
    me: Member,
) -> dict[int, list[Address]]:
    """Return where each missing part may be fetched: at its assigned holder first, then at all others that have it."""
    found: dict[int, list[Address]] = {}
    for part in missing:
        holders = [member for member, keeper in sorted(keepers.items()) if part in keeper.steps.get(step, ())]
        holders.sort(key=lambda member: member != assigned.get(part))
        found[part] = [keepers[member].address for member in holders if member != me]
    return found
