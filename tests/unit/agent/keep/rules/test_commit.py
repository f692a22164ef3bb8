"""Commit and floor, from announcements that are old, repeated or missing: each answer stays true."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint, decide_safe_point
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

NOW, BEFORE = Lineage(3, "c"), Lineage(2, "b")
MEMBERS = [Member(slot, "00000000") for slot in range(3)]


def step(number: int) -> KeptStep:
    return KeptStep(NOW, number, 2)


def holds(
    held: Mapping[int, set[int]], *, committed: int = 0, oldest: int = 0, restored: bool = True, settled: bool = False
) -> Announcement:
    return Announcement(
        lineage=NOW,
        held={step(number): frozenset(parts) for number, parts in held.items()},
        committed=step(committed) if committed else None,
        oldest_uncommitted=step(oldest) if oldest else None,
        is_restored=restored,
        is_settled=settled,
    )


def decide(
    *announced: Announcement | None, hosts: str = "", copies: int = 1, awaits_all: bool = True
) -> tuple[int, int]:
    """Return the numbers of the committed step and of the floor, 0 for none; the members are those that are given."""
    members = MEMBERS[: len(announced)]
    known = {member: each for member, each in zip(members, announced, strict=True) if each is not None}
    point = decide_safe_point(
        NOW,
        known,
        dict(zip(members, hosts or "abc", strict=False)),
        copies=copies,
        awaits_all=awaits_all,
    )
    assert point.lineage == NOW
    return point.committed.number if point.committed else 0, point.floor.number if point.floor else 0


def test_a_step_is_committed_when_each_part_has_two_holders() -> None:
    assert decide(holds({1: {0}}, oldest=1), holds({1: {1}}, oldest=1)) == (0, 1)
    assert decide(holds({1: {0, 1}}, oldest=1), holds({1: {1}}, oldest=1)) == (0, 1)
    assert decide(holds({1: {0, 1}}, oldest=1), holds({1: {0, 1}}, oldest=1)) == (1, 1)


def test_the_newest_copied_step_is_the_committed_one() -> None:
    both = holds({1: {0, 1}, 2: {0, 1}, 3: {0}}, oldest=1)
    assert decide(both, both) == (2, 1)


def test_a_member_alone_commits_what_it_has() -> None:
    assert decide(holds({4: {0, 1}}, oldest=4)) == (4, 4)


def test_nothing_new_is_committed_before_all_have_restored() -> None:
    ready, slow = holds({1: {0, 1}}, oldest=1), holds({1: {0, 1}}, restored=False)
    assert decide(ready, ready, slow) == (0, 1)
    assert decide(ready, ready, None) == (0, 1)
    assert decide(ready, ready, None, awaits_all=False) == (1, 1)


def test_a_new_leader_learns_what_is_committed_from_those_that_know_it() -> None:
    # Its predecessor had answered to the first member only, which has dropped what is older.
    first = holds({1: {0, 1}, 2: {0}}, committed=1, oldest=2)
    assert decide(first, None) == (1, 2)


def test_the_floor_is_the_highest_oldest_uncommitted_step() -> None:
    assert decide(holds({2: {0}}, oldest=2), holds({5: {1}}, oldest=5)) == (0, 5)


def test_an_announcement_of_another_round_or_node_does_not_count() -> None:
    other = replace(holds({1: {0, 1}}, committed=1, oldest=1), lineage=BEFORE)
    assert decide(holds({1: {0, 1}}, oldest=1), other) == (0, 1)
    strangers = {Member(9, "00000000"): holds({1: {0, 1}}, committed=1, oldest=7)}
    assert decide_safe_point(NOW, strangers, {MEMBERS[0]: "a"}, copies=1) == SafePoint(NOW)


@pytest.mark.parametrize(("hosts", "committed"), [("aab", 0), ("abb", 1), ("aaa", 1)])
def test_copies_are_on_different_hosts_if_there_are_any(hosts: str, committed: int) -> None:
    both, none = holds({1: {0, 1}}, oldest=1), holds({})
    assert decide(both, both, none, hosts=hosts)[0] == committed


def test_a_step_that_gets_no_further_copy_is_committed_with_two_holders_and_never_with_one() -> None:
    tried = holds({1: {0, 1}}, oldest=1, settled=True)
    assert decide(tried, tried, holds({}), copies=2) == (1, 1)
    assert decide(tried, replace(tried, is_settled=False), holds({}), copies=2) == (0, 1)
    assert decide(tried, holds({}), copies=1) == (0, 1)
    assert decide(tried, holds({}), holds({}), copies=2) == (0, 1)


def test_a_step_that_no_member_copies_is_not_committed_as_settled() -> None:
    # It is older than the restored step, and no member has tried to copy it.
    newer = holds({1: {0, 1}, 2: {0, 1}}, oldest=2)
    assert decide(newer, newer, holds({2: {0, 1}}, oldest=2), copies=2) == (2, 2)
    assert decide(newer, replace(newer, held={step(1): frozenset({0, 1})}), holds({}), copies=2) == (0, 2)


parts = st.frozensets(st.integers(0, 1), min_size=1)
announcements = st.builds(
    Announcement,
    lineage=st.sampled_from([NOW, NOW, NOW, BEFORE]),
    held=st.dictionaries(st.integers(1, 4).map(step), parts, max_size=3),
    committed=st.none() | st.integers(1, 4).map(step),
    oldest_uncommitted=st.none() | st.integers(1, 4).map(step),
    is_settled=st.booleans(),
    is_restored=st.booleans(),
)


@given(st.lists(announcements, min_size=1, max_size=3), st.integers(0, 2))
def test_a_commit_is_known_to_a_member_or_has_its_copies(announced: list[Announcement], copies: int) -> None:
    members = MEMBERS[: len(announced)]
    known = dict(zip(members, announced, strict=True))
    point = decide_safe_point(NOW, known, dict(zip(members, "abc", strict=False)), copies=copies)
    current = [each for each in announced if each.lineage == NOW]
    told = [each.committed for each in current if each.committed is not None]
    if point.committed is not None and point.committed not in told:
        holders = [
            sum(part in each.held.get(point.committed, ()) for each in current) for part in range(point.committed.parts)
        ]
        assert min(holders) >= min(1 + copies, len(members), 2)
        assert len(current) == len(members)
    assert point.committed is None or all(point.committed >= each for each in told)
    assert point.floor is None or point.floor in [each.oldest_uncommitted for each in current]


lies = st.builds(
    Announcement,
    lineage=st.sampled_from([NOW, NOW, BEFORE]),
    held=st.dictionaries(
        st.builds(KeptStep, st.sampled_from([NOW, BEFORE, Lineage(9, "later")]), st.integers(0, 6), st.integers(1, 3)),
        st.just(frozenset({0})) | parts,
        max_size=6,
    ),
    oldest_uncommitted=st.none() | st.integers(1, 9).map(step),
    is_settled=st.booleans(),
    is_restored=st.booleans(),
)


@given(st.lists(announcements, min_size=1, max_size=2), lies, st.integers(1, 2))
def test_what_one_member_claims_to_hold_commits_nothing_that_no_other_member_holds(
    honest: list[Announcement], lie: Announcement, copies: int
) -> None:
    members = MEMBERS[: len(honest) + 1]
    known = dict(zip(members, [*honest, lie], strict=True))
    point = decide_safe_point(NOW, known, dict(zip(members, "abc", strict=False)), copies=copies)
    current = [each for each in honest if each.lineage == NOW]
    if point.committed is not None and point.committed not in {each.committed for each in current}:
        held = [each.held.get(point.committed, frozenset()) for each in current]
        assert frozenset().union(*held) == frozenset(range(point.committed.parts))


@given(lies)
def test_what_one_member_claims_to_hold_stops_no_commit_of_what_the_others_have_copied(lie: Announcement) -> None:
    copied = holds({5: {0, 1}}, oldest=5)
    assert decide(copied, copied, replace(lie, lineage=NOW, is_restored=True))[0] == 5


def test_a_member_that_says_nothing_of_this_round_lets_nothing_new_be_committed() -> None:
    copied = holds({1: {0, 1}}, oldest=1)
    for lie in (None, replace(copied, lineage=BEFORE), replace(copied, is_restored=False)):
        assert decide(copied, copied, lie) == (0, 1)


@given(st.lists(announcements, min_size=1, max_size=3))
def test_the_answer_to_fewer_announcements_stays_true(announced: list[Announcement]) -> None:
    """A leader that lost some announcements answers a part of what one with all of them answers."""
    members = MEMBERS[: len(announced)]
    hosts = dict(zip(members, "abc", strict=False))
    everything = dict(zip(members, announced, strict=True))
    full = decide_safe_point(NOW, everything, hosts, copies=1)
    for count in range(len(members)):
        for some in itertools.combinations(members, count):
            part = decide_safe_point(NOW, {member: everything[member] for member in some}, hosts, copies=1)
            assert part.committed is None or (full.committed is not None and part.committed <= full.committed)
            assert part.floor is None or (full.floor is not None and part.floor <= full.floor)
