"""Each member keeps replicas for as many as keep for it, on other hosts and in other racks if that can be."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.shift import Place, choose_shift, count_conflicts, replica_ranks

rack_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=9)


def racks(sizes: list[int]) -> list[Place]:
    """Return places in contiguous racks of these sizes, each on its own host."""
    return [Place(f"host-{rack}-{i}", f"rack-{rack}") for rack, size in enumerate(sizes) for i in range(size)]


def keepers_of(places: list[Place], shift: int, copies: int) -> dict[int, list[int]]:
    hosts = [place.host for place in places]
    return {rank: replica_ranks(hosts, rank, shift, copies) for rank in range(len(places))}


@given(rack_sizes)
def test_no_replica_stays_in_its_rack_if_no_rack_has_more_than_half_of_the_nodes(sizes: list[int]) -> None:
    places = racks(sizes)
    if 2 * max(sizes) <= len(places):
        assert count_conflicts(places, 1, choose_shift(places, 1)) == (0, 0)


@given(rack_sizes, st.integers(1, 3))
def test_each_member_keeps_for_as_many_as_keep_for_it(sizes: list[int], copies: int) -> None:
    places = racks(sizes)
    shift = choose_shift(places, copies)
    if count_conflicts(places, copies, shift)[0] == 0:
        targets = [target for found in keepers_of(places, shift, copies).values() for target in found]
        assert sorted(targets) == sorted(list(range(len(places))) * min(copies, len(places) - 1))


@given(rack_sizes, st.integers(1, 3), st.data())
def test_a_replacement_changes_its_own_pairs_only(sizes: list[int], copies: int, data: st.DataObject) -> None:
    places = racks(sizes)
    shift = choose_shift(places, copies)
    if count_conflicts(places, copies, shift) != (0, 0):
        return
    replaced = data.draw(st.integers(0, len(places) - 1))
    changed = [*places[:replaced], Place("new-host", places[replaced].topology), *places[replaced + 1 :]]
    assert choose_shift(changed, copies, shift) == shift
    pairs = [(rank, target) for rank, found in keepers_of(changed, shift, copies).items() for target in found]
    assert sum(replaced in pair for pair in pairs) <= 2 * copies
    assert keepers_of(changed, shift, copies) == keepers_of(places, shift, copies)


def test_a_shift_with_a_conflict_gives_way() -> None:
    places = [Place(host) for host in "abab"]
    assert count_conflicts(places, 1, 2) == (4, 4)
    assert choose_shift(places, 1, previous=2) != 2


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_a_member_alone_has_no_shift(copies: int) -> None:
    assert choose_shift([Place("a")], copies) == 0
    assert choose_shift([], copies) == 0


def test_without_copies_there_is_no_shift() -> None:
    assert choose_shift([Place("a"), Place("b")], 0) == 0


def test_a_previous_shift_that_means_itself_now_is_not_kept() -> None:
    places = racks([1, 1, 1])
    assert choose_shift(places, 1, previous=3) in {1, 2}
    assert choose_shift(places, 1, previous=9) in {1, 2}


def test_a_replica_on_the_own_host_moves_to_one_of_the_next_ranks() -> None:
    hosts = ["a", "b", "a", "c", "d"]
    assert replica_ranks(hosts, 0, 2, 1) == [3]
    assert replica_ranks(hosts, 1, 2, 1) == [3]


def test_a_full_member_gives_way_and_a_replica_is_given_up_if_all_are_full() -> None:
    hosts = list("abcdef")
    assert replica_ranks(hosts, 0, 1, 1, full={1}) == [2]
    assert replica_ranks(hosts, 0, 1, 1, full={1, 2, 3, 4}) == []


def test_members_of_one_host_keep_for_each_other() -> None:
    assert [replica_ranks(["a", "a", "a"], rank, 1, 2) for rank in range(3)] == [[1, 2], [2, 0], [0, 1]]


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_member_never_copies_to_itself_nor_twice_to_another(
    size: int, shift: int, copies: int, source: random.Random
) -> None:
    hosts = [source.choice("abc") for _ in range(size)]
    for rank in range(size):
        found = replica_ranks(hosts, rank, shift, copies)
        assert rank not in found
        assert len(set(found)) == len(found) <= min(copies, size - 1)
