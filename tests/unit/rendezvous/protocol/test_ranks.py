"""Order of nodes, ranks of workers, roles, and the selection among too many nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase, encode_layout
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView
from tests.unit.rendezvous.views import a_live_node, slots_of, view_builder


def a_state(nodes: list[NodeEntry]) -> RendezvousState:
    nprocs, roles = encode_layout((node.record.nproc, node.record.role) for node in nodes)
    members = tuple(node.member for node in nodes)
    master = ranks.master_of(nodes[0])
    return RendezvousState(
        phase=RoundPhase.ACTIVE, round=3, nonce="n", members=members, nprocs=nprocs, roles=roles, master=master
    )


def with_roles(*shape: tuple[str, int]) -> RendezvousState:
    return a_state([a_live_node(slot, role=role, nproc=nproc) for slot, (role, nproc) in enumerate(shape)])


@pytest.mark.parametrize(
    ("rank", "base", "role_base", "role_size"),
    [
        pytest.param(0, 0, 0, 5, id="trainer 0"),
        pytest.param(1, 2, 0, 3, id="ps 1"),
        pytest.param(2, 3, 2, 5, id="trainer 2"),
        pytest.param(3, 6, 1, 3, id="ps 3"),
    ],
)
def test_four_agents_of_two_roles_are_ranked_as_torchrun_documents(
    rank: int, base: int, role_base: int, role_size: int
) -> None:
    place = ranks.assignment(with_roles(("trainer", 2), ("ps", 1), ("trainer", 3), ("ps", 2)), rank)
    assert (place.base_rank, place.role_base_rank, place.role_world_size) == (base, role_base, role_size)
    assert (place.world_size, place.group_world_size) == (8, 4)


def test_five_agents_of_unequal_size_have_contiguous_ranks_of_each_role() -> None:
    state = with_roles(("ps", 4), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("ps", 5))
    places = [ranks.assignment(state, rank) for rank in range(5)]
    assert [place.base_rank for place in places] == [0, 4, 5, 7, 10]
    assert [place.role_base_rank for place in places] == [0, 0, 1, 3, 4]
    assert {(place.role, place.role_world_size) for place in places} == {("ps", 9), ("trainer", 6)}


@pytest.mark.parametrize(
    ("address", "master", "host"),
    [
        pytest.param("10.0.0.7", "10.0.0.7:20000", "10.0.0.7", id="IPv4"),
        pytest.param("fd00::7", "[fd00::7]:20000", "fd00::7", id="IPv6 in brackets, bare for the worker"),
        pytest.param("node-7.local", "node-7.local:20000", "node-7.local", id="name"),
    ],
)
def test_the_master_is_the_reserved_port_of_rank_0(address: str, master: str, host: str) -> None:
    state = a_state([a_live_node(0, address=address), a_live_node(1)])
    place = ranks.assignment(state, 1)
    assert (state.master, place.master_addr, place.master_port) == (master, host, 20000)


def test_the_order_is_by_topology_and_then_by_slot() -> None:
    nodes = [a_live_node(slot, topology=topology) for slot, topology in enumerate(["rack-b", "rack-a", "rack-a"])]
    assert slots_of(ranks.sort_nodes(RendezvousView(), nodes)) == [1, 2, 0]


def test_the_operators_topology_has_priority_over_the_nodes_own() -> None:
    view = view_builder().owned_by(s0="pod-0", s1="pod-1").node(0, topology="z").node(1, topology="a").build()
    assert slots_of(ranks.sort_nodes(view, list(view.nodes.values()))) == [0, 1]


def test_members_of_the_last_round_are_taken_before_newcomers_in_lower_slots() -> None:
    view = view_builder().nodes(0, 1, 2, 3).active(1, 2, 3).build()
    assert sorted(slots_of(ranks.select(view, list(view.nodes.values()), 3))) == [0, 2, 3]


def test_without_a_last_round_the_lowest_slots_are_taken() -> None:
    view = view_builder().nodes(3, 1, 2).build()
    assert slots_of(ranks.select(view, list(view.nodes.values()), 2)) == [1, 2]


shapes = st.lists(st.tuples(st.sampled_from(["a", "b", "c*1,x2"]), st.integers(1, 8)), min_size=1, max_size=12)


@pytest.mark.parametrize("slots", [(0, 1, 2), (5, 0, 7), (2, 1, 0)], ids=["slot by slot", "with gaps", "in racks"])
def test_a_member_finds_its_rank_in_any_order_of_slots(slots: tuple[int, ...]) -> None:
    state = a_state([a_live_node(slot) for slot in slots])
    assert [ranks.rank_of(state, member) for member in state.members] == [0, 1, 2]


def test_another_incarnation_of_a_members_slot_has_no_rank() -> None:
    state = a_state([a_live_node(slot) for slot in (0, 1)])
    assert ranks.rank_of(state, Member(1, "f" * 8)) is None


@given(shapes)
def test_ranks_are_a_bijection_and_so_are_the_ranks_of_each_role(shape: list[tuple[str, int]]) -> None:
    state = with_roles(*shape)
    places = [ranks.assignment(state, rank) for rank in range(len(shape))]
    total = sum(nproc for _, nproc in shape)
    assert [place.base_rank + i for place in places for i in range(place.nproc)] == list(range(total))
    for role in {role for role, _ in shape}:
        of_role = [place for place in places if place.role == role]
        everyone = [place.role_base_rank + i for place in of_role for i in range(place.nproc)]
        assert everyone == list(range(of_role[0].role_world_size))


@given(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 40)), st.data())
def test_members_keep_their_order_and_a_replacement_takes_the_free_rank(
    before: set[int], newcomers: set[int], data: st.DataObject
) -> None:
    racks = {slot: f"rack-{slot % 3}" for slot in before | newcomers}
    lost = data.draw(st.sampled_from(sorted(before)))
    old = ranks.sort_nodes(RendezvousView(), [a_live_node(slot, topology=racks[slot]) for slot in before])
    replacement = a_live_node(lost, incarnation="f" * 8, topology=racks[lost])
    after = [node for node in old if node.member.slot != lost] + [replacement]
    assert slots_of(ranks.sort_nodes(RendezvousView(), after)) == slots_of(old)
    joined = after + [a_live_node(slot, topology=racks[slot]) for slot in newcomers - before]
    survivors = [slot for slot in slots_of(ranks.sort_nodes(RendezvousView(), joined)) if slot in before]
    assert survivors == slots_of(old)
