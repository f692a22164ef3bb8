"""The peers of a round, as the agent names them."""

import pytest

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.messages import BeginRequest, PeerRecord, PeersRequest
from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Lineage
from elasticjob_api.rendezvous_state import Member

LINEAGE = Lineage(3, "a")
MEMBERS = [Member(slot, "0000000a") for slot in range(4)]


def record(member: Member, machine: str = "", *, port: int = 0) -> PeerRecord:
    """Return the record of a member; its address is known if it has a port."""
    return PeerRecord(member.token, "10.0.0.1" if port else "", port, machine)


def round_of(rank: int, *, copies: int = 1, shift: int = 1) -> CopyRound:
    """Return the copies of the node of this rank."""
    found = CopyRound.of(
        BeginRequest("run1", LINEAGE, place=RoundPlace(rank, 4, rank, 1, 4), shift=shift, copies=copies)
    )
    assert found is not None
    return found


def test_a_member_copies_to_another_host_and_passes_over_one_that_is_full() -> None:
    hosts = ["x", "x", "y", "z"]
    records = tuple(record(member, host) for member, host in zip(MEMBERS, hosts, strict=True))
    peers = RoundPeers.of(PeersRequest(LINEAGE, records))
    assert peers.targets(round_of(0), []) == [MEMBERS[2]]
    assert peers.targets(round_of(0), [MEMBERS[2]]) == [MEMBERS[3]]


def test_members_whose_hosts_are_not_known_count_as_different_ones() -> None:
    peers = RoundPeers.of(PeersRequest(LINEAGE, tuple(map(record, MEMBERS))))
    assert peers.targets(round_of(0, copies=2), []) == [MEMBERS[1], MEMBERS[2]]
    assert peers.targets(round_of(3), []) == [MEMBERS[0]]


def test_addresses_are_those_that_are_known_also_of_nodes_that_leave() -> None:
    leaver = Member(9, "0000000b")
    request = PeersRequest(LINEAGE, (record(MEMBERS[0], port=5), record(MEMBERS[1])), False, (record(leaver, port=6),))
    addresses = RoundPeers.of(request).addresses
    assert addresses == {MEMBERS[0]: Address("10.0.0.1", 5), leaver: Address("10.0.0.1", 6)}


def test_a_node_without_a_place_copies_nothing_and_one_without_copies_commits() -> None:
    assert CopyRound.of(BeginRequest("run1", LINEAGE)) is None
    peers = RoundPeers.of(PeersRequest(LINEAGE, tuple(map(record, MEMBERS))))
    assert peers.targets(round_of(0, copies=0), []) == []


@pytest.mark.parametrize("token", ["", "x", "0001aaaaaaaa0002bbbbbbbb", "0001aaaaaaaé"])
def test_another_text_is_no_member(token: str) -> None:
    with pytest.raises(ControlError, match="the token of no member"):
        RoundPeers.of(PeersRequest(LINEAGE, (PeerRecord(token),)))
