"""The requests to a keeper about a state, and the addresses from which it fetches a step."""

from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.node import keep_requests
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperEntry
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_sources
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase

MEMBERS = tuple(Member(slot, f"0000000{slot}") for slot in range(4))
LEAVER = Member(9, "00000009")
OLD = Lineage(2, "older")
STEP = KeptStep(OLD, 120, 4)
ACTIVE = RendezvousState(
    phase=RoundPhase.ACTIVE,
    round=3,
    nonce="nonce3",
    master="10.0.0.1:29500",
    nprocs="2x4",
    roles="default*4",
    run="0badcafe",
    history="2.older.120",
    restore=str(STEP),
    sources="0-1:0,2:2,3:x000900000009",
    shift="1",
    members=MEMBERS,
)
SETTINGS = KeepSettings(directory=Path("/keep"), copies=2, bandwidth=77)


def keeper(slot: int, *parts: int, is_leaving: bool = False) -> KeeperEntry:
    steps = {STEP: frozenset(parts)} if parts else {}
    return KeeperEntry(Address("10.0.0.1", 7000 + slot), f"host-{slot}", steps, is_leaving)


KEEPERS = {
    MEMBERS[0]: keeper(0, 0, 1),
    MEMBERS[1]: keeper(1, 1),
    MEMBERS[2]: keeper(2, 2),
    LEAVER: keeper(9, 3, is_leaving=True),
}


def test_the_begin_of_a_round_has_the_place_of_the_node() -> None:
    begun = keep_requests.begin_request(ACTIVE, 1, SETTINGS)
    assert (begun.run, begun.lineage, begun.restored) == ("0badcafe", Lineage(3, "nonce3"), STEP)
    assert begun.place == RoundPlace(rank=1, members=4, base_rank=2, workers=2, world_size=8)
    assert (begun.shift, begun.copies, begun.bandwidth) == (1, 2, 77)


@pytest.mark.parametrize(
    ("state", "restored", "in_use"),
    [
        pytest.param(ACTIVE, STEP, f"0badcafe.{STEP}", id="any node may read a step on disk that it cannot fetch"),
        pytest.param(replace(ACTIVE, sources=persisted_sources("other")), None, f"other.{STEP}", id="all read it"),
        pytest.param(replace(ACTIVE, restore="", sources=""), None, "", id="no step is restored"),
    ],
)
def test_the_restored_step_is_in_use_on_disk(state: RendezvousState, restored: KeptStep | None, in_use: str) -> None:
    begun = keep_requests.begin_request(state, 1, SETTINGS)
    assert (begun.restored, begun.in_use) == (restored, in_use)


def test_a_member_needs_the_records_of_those_that_it_may_copy_to_and_its_own_host() -> None:
    eight = RendezvousState(
        phase=RoundPhase.ACTIVE,
        round=3,
        nonce="n",
        shift="4",
        members=tuple(Member(slot, f"0000000{slot}") for slot in range(8)),
    )
    assert [member.slot for member in keep_requests.members_to_find(eight, 1, 1)] == [0, 1, 5, 6, 7]
    assert keep_requests.members_to_find(eight, 1, 0) == []


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_member_that_does_not_lead_copies_to_another_host_than_its_own(rank: int) -> None:
    three = replace(ACTIVE, members=MEMBERS[:3], nprocs="2x3", roles="default*3", sources="")
    hosts = ["a", "b", "b"]
    records = {member: replace(keeper(slot), machine=hosts[slot]) for slot, member in enumerate(three.members)}
    read = {member: records[member] for member in keep_requests.members_to_find(three, rank, 1)}
    peers = RoundPeers.of(keep_requests.peers_request(three, read, leads=False))
    round_ = CopyRound.of(keep_requests.begin_request(three, rank, replace(SETTINGS, copies=1)))
    assert round_ is not None
    [target] = peers.targets(round_, ())
    assert hosts[target.slot] != hosts[rank]


def test_peers_have_their_addresses_in_rank_order_and_unknown_ones_have_none() -> None:
    peers = keep_requests.peers_request(ACTIVE, KEEPERS, leads=True)
    assert [peer.member for peer in peers.members] == [member.token for member in MEMBERS]
    assert [peer.port for peer in peers.members] == [7000, 7001, 7002, 0]
    assert [peer.machine for peer in peers.members] == ["host-0", "host-1", "host-2", ""]
    assert [(peer.member, peer.port) for peer in peers.leaving] == [(LEAVER.token, 7009)]


def test_a_peer_whose_keeper_cannot_be_reached_has_no_address() -> None:
    unreachable = replace(KEEPERS[MEMBERS[1]], address=Address("10.0.0.1", 0))
    peers = keep_requests.peers_request(ACTIVE, {**KEEPERS, MEMBERS[1]: unreachable}, leads=False)
    assert [peer.host for peer in peers.members] == ["10.0.0.1", "", "10.0.0.1", ""]


def test_only_the_leaders_keeper_gets_the_nodes_that_leave() -> None:
    assert keep_requests.peers_request(ACTIVE, KEEPERS, leads=False).leaving == ()


def test_a_part_is_fetched_from_the_holder_in_the_state_first() -> None:
    missing = [1, 2, 3]
    assigned = keep_requests.assigned_holders(ACTIVE, STEP, missing)
    assert assigned == {1: MEMBERS[1], 2: MEMBERS[2], 3: LEAVER}
    found = keep_requests.addresses_of(STEP, missing, assigned, KEEPERS, MEMBERS[3])
    assert {part: [address.port for address in addresses] for part, addresses in found.items()} == {
        1: [7001, 7000],
        2: [7002],
        3: [7009],
    }


def test_a_node_never_fetches_from_itself() -> None:
    assert keep_requests.addresses_of(STEP, [2], {}, KEEPERS, MEMBERS[2]) == {2: []}


@pytest.mark.parametrize("field", ["history", "restore", "nprocs"])
def test_a_state_that_cannot_be_read_is_an_error(field: str) -> None:
    broken = RendezvousState(**{**_fields(ACTIVE), field: "../x"})  # type: ignore[arg-type]  # a table of fields
    with pytest.raises(RecordError):
        keep_requests.begin_request(broken, 1, SETTINGS)


def _fields(state: RendezvousState) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


@pytest.mark.parametrize(("port", "reachable"), [(7003, True), (0, False)])
def test_members_are_reachable_if_each_has_a_record_with_a_port(port: int, *, reachable: bool) -> None:
    last = KeeperEntry(Address("10.0.0.1", port), "host-3", {}, is_leaving=False)
    assert keep_requests.are_reachable(MEMBERS, {**KEEPERS, MEMBERS[3]: last}) is reachable
    assert not keep_requests.are_reachable(MEMBERS, KEEPERS)
