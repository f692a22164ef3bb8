"""Whole is: each part somewhere. Safe is: each part on as many hosts, or members, as there are copies and one more."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.keep.holders import is_safe, is_whole
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

STEP = KeptStep(Lineage(1, "a"), 5, 3)
MEMBERS = [Member(slot, "00000000") for slot in range(5)]

part_sets = st.lists(st.frozensets(st.integers(0, 2)), min_size=1, max_size=5)


def is_safe_with(sets: Sequence[frozenset[int]], hosts: str, copies: int) -> bool:
    members = MEMBERS[: len(hosts)]
    holdings = {member: {STEP: parts} for member, parts in zip(members, sets, strict=False)}
    return is_safe(STEP, holdings, dict(zip(members, hosts, strict=True)), copies)


@given(part_sets)
def test_a_step_is_whole_if_each_part_is_held(sets: list[frozenset[int]]) -> None:
    assert is_whole(STEP, [{STEP: parts} for parts in sets]) == (frozenset().union(*sets) == {0, 1, 2})


@given(part_sets, st.integers(0, 3))
def test_a_step_is_safe_if_each_part_has_enough_holders(sets: list[frozenset[int]], copies: int) -> None:
    fewest = min(sum(part in parts for parts in sets) for part in range(3))
    assert is_safe_with(sets, "abcde"[: len(sets)], copies) == (fewest >= min(1 + copies, len(sets)))


ALL = frozenset({0, 1, 2})
NONE = frozenset[int]()


@pytest.mark.parametrize(
    ("sets", "hosts", "is_safe"),
    [
        ([ALL, ALL, NONE], "aab", False),
        ([ALL, NONE, ALL], "aab", True),
        ([ALL, NONE], "aa", False),
        ([ALL, ALL], "aa", True),
        ([ALL], "a", True),
        ([], "", False),
    ],
    ids=[
        "two holders on one host, and there is another host",
        "two hosts",
        "one of two members of one host",
        "both members of one host",
        "a member alone",
        "no member",
    ],
)
def test_hosts_count_if_there_are_enough_and_else_members(
    sets: list[frozenset[int]], hosts: str, *, is_safe: bool
) -> None:
    assert is_safe_with(sets, hosts, 1) is is_safe


def test_the_holdings_of_a_node_that_is_no_member_do_not_count() -> None:
    holdings = {MEMBERS[0]: {STEP: ALL}, MEMBERS[1]: {STEP: ALL}}
    assert not is_safe(STEP, holdings, {MEMBERS[0]: "a", MEMBERS[2]: "c"}, 1)
