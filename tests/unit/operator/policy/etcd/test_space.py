"""The steps that free space in etcd, one at a time."""

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from elasticjob_etcd.members import MemberStatus
from elasticjob_operator.policy.etcd.space import (
    LOW,
    Compact,
    Defragment,
    Disarm,
    Reclaimed,
    SpaceUsage,
    Step,
    next_step,
)

QUOTA = 1000


def member(
    number: int, *, size: int, used: int | None = None, is_leader: bool = False, quota: int = QUOTA
) -> MemberStatus:
    used = size if used is None else used
    return MemberStatus(id=number, is_leader=is_leader, revision=7, db_size=size, db_size_in_use=used, quota=quota)


def space(*members: MemberStatus, full: bool = False, unknown: int = 0) -> SpaceUsage:
    alarms = frozenset({members[0].id}) if full else frozenset[int]()
    return SpaceUsage(members, full=alarms, revision=7, quota=QUOTA, unknown=unknown)


def steps(begin: SpaceUsage) -> list[Step]:
    """Return all steps of one check; a member has no free pages after a defragmentation."""
    found, done, now = list[Step](), Reclaimed(), begin
    while (step := next_step(now, done)) is not None:
        found.append(step)
        done = done.after(step)
        if isinstance(step, Disarm):
            break
        if isinstance(step, Defragment):
            shrunk = tuple(replace(m, db_size=m.db_size_in_use) if m.id == step.member_id else m for m in now.members)
            now = replace(now, members=shrunk)
    return found


def test_a_full_etcd_is_compacted_then_each_member_is_defragmented_the_leader_last_then_the_alarm_ends() -> None:
    full = space(*(member(n, size=1000, used=10, is_leader=n == 1) for n in (1, 2, 3)), full=True)
    assert steps(full) == [Compact(7), Defragment(2), Defragment(3), Defragment(1), Disarm(frozenset({1}))]


def test_an_alarm_is_kept_while_one_member_is_still_near_its_quota() -> None:
    full = space(member(1, size=1000, used=10), member(2, size=1000, used=900), full=True)
    assert steps(full) == [Compact(7), Defragment(1), Defragment(2)]


def test_a_step_that_did_not_help_is_repeated_only_at_another_revision() -> None:
    full = space(member(1, size=1000), full=True)
    done = Reclaimed(7, frozenset({1}))
    assert next_step(full, done) is None
    assert next_step(replace(full, revision=8), done) == Compact(8)


def test_an_alarm_ends_without_defragmentation_when_the_quota_was_raised() -> None:
    assert next_step(space(member(1, size=1000, quota=2000), full=True), Reclaimed(7)) == Disarm(frozenset({1}))


def test_an_alarm_does_not_end_when_no_member_answers() -> None:
    assert next_step(replace(space(member(1, size=1), full=True), members=(), unknown=1), Reclaimed(7)) is None


def test_a_member_that_does_not_report_its_quota_has_the_given_one() -> None:
    assert next_step(space(member(1, size=801, quota=0), full=True), Reclaimed(7)) == Defragment(1)


def test_a_large_file_that_is_mostly_free_is_defragmented_before_etcd_is_full() -> None:
    found = steps(
        space(member(1, size=600, used=100, is_leader=True), member(2, size=600, used=100), member(3, size=600))
    )
    assert found == [Defragment(2), Defragment(1)]


def test_no_member_is_defragmented_early_while_another_is_unavailable() -> None:
    assert next_step(space(member(1, size=600, used=100), unknown=1), Reclaimed()) is None


SIZES = st.tuples(st.integers(0, 1200), st.integers(0, 1200)).map(sorted)


@given(sizes=st.lists(SIZES, min_size=1, max_size=5), full=st.booleans(), unknown=st.integers(0, 1))
def test_a_check_ends_for_all_sizes_and_no_alarm_ends_near_the_quota(
    sizes: list[list[int]], *, full: bool, unknown: int
) -> None:
    members = [member(n, size=size, used=used, is_leader=n == 0) for n, (used, size) in enumerate(sizes)]
    found = steps(space(*members, full=full, unknown=unknown))
    moved = [step.member_id for step in found if isinstance(step, Defragment)]
    assert len(moved) == len(set(moved))
    assert 0 not in moved[:-1], "the leader comes last"
    ends = any(isinstance(step, Disarm) for step in found)
    assert ends == (full and all(used <= LOW * QUOTA for used, _ in sizes))
