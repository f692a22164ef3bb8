"""The members of a round, the addresses of their keepers, and the copies of one node to them. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.messages import BeginRequest, PeerRecord, PeersRequest
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.rendezvous.protocol.keep.shift import replica_ranks
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Lineage
from elasticjob_api.rendezvous_state import Member, decode_members


@dataclass(frozen=True, slots=True)
class RoundPeers:
    """The members in rank order, and nodes that leave."""

    lineage: Lineage
    members: tuple[Member, ...] = ()
    hosts: tuple[str, ...] = ()
    """The host of each member."""
    addresses: Mapping[Member, Address] = field(default_factory=dict)
    """The keepers whose address is known, also those of nodes that leave."""

    @classmethod
    def of(cls, request: PeersRequest) -> "RoundPeers":
        """Return the peers of a request; raise ControlError."""
        members = tuple(parse_member(each.member) for each in request.members)
        hosts = tuple(each.machine or each.member for each in request.members)
        return cls(request.lineage, members, hosts, _addresses([*request.members, *request.leaving]))

    def targets(self, round_: "CopyRound", full: Iterable[Member]) -> list[Member]:
        """Return the members to which this node copies its parts, without those that are full."""
        ranks = {self.members.index(member) for member in full if member in self.members}
        found = replica_ranks(self.hosts, round_.place.rank, round_.shift, round_.copies, full=ranks)
        return [self.members[rank] for rank in found]


@dataclass(frozen=True, slots=True)
class CopyRound:
    """How this node copies its parts in one round."""

    lineage: Lineage
    place: RoundPlace
    shift: int
    copies: int

    @classmethod
    def of(cls, begun: BeginRequest) -> "CopyRound | None":
        """Return how a round copies; None if the node has no place in it. Steps are committed also without copies."""
        if begun.place is None:
            return None
        return cls(begun.lineage, begun.place, begun.shift, begun.copies)


def parse_member(token: str) -> Member:
    """Return the member of a token; raise ControlError."""
    try:
        (member,) = decode_members(token.encode())
    except (RecordError, ValueError) as error:
        raise ControlError(f"{token!r:.40} is the token of no member") from error
    return member


def _addresses(records: Iterable[PeerRecord]) -> dict[Member, Address]:
    return {parse_member(each.member): Address(each.host, each.port) for each in records if each.host and each.port}
