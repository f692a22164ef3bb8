"""Which parts go to peers, and what a receiver answers: two steps of each peer at most."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.replication import (
    OfferAnswer,
    RoundPlace,
    answer_offer,
    own_parts,
    pending_copies,
)
from elasticjob_agent.keep.rules.retention import KeeperRound
from elasticjob_api.kept_steps import History, HistoryEntry, Holdings, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

BEFORE, NOW, NEXT = Lineage(2, "b"), Lineage(3, "c"), Lineage(4, "d")
RESTORED = KeptStep(BEFORE, 10, 4)
ROUND = KeeperRound(NOW, restored=RESTORED, is_running=True)
HISTORY = History((HistoryEntry(NOW, None), HistoryEntry(BEFORE, 10)))
PLACE = RoundPlace(rank=1, members=4, base_rank=2, workers=2, world_size=8)
ALL = frozenset(range(4))


def now(number: int) -> KeptStep:
    return KeptStep(NOW, number, 4)


# -- what is copied --------------------------------------------------------------------------------


def test_of_its_round_a_node_copies_what_its_workers_published() -> None:
    held = {now(1): frozenset({1, 2})}
    assert own_parts(ROUND, now(1), PLACE, {4: frozenset({1, 3})}, held) == {1}
    assert own_parts(ROUND, now(1), PLACE, {2: frozenset({1})}, held) == frozenset()
    assert own_parts(ROUND, now(1), PLACE, {}, held) == frozenset()


@pytest.mark.parametrize(
    ("parts", "own"),
    [(4, {1}), (8, {2, 3}), (1, {0}), (5, {0, 1, 2, 3, 4})],
    ids=["one part a member", "one part a worker", "a whole copy", "another world"],
)
def test_of_the_restored_step_a_node_copies_its_share(parts: int, own: set[int]) -> None:
    step = KeptStep(BEFORE, 10, parts)
    known = KeeperRound(NOW, restored=step, is_running=True)
    assert own_parts(known, step, PLACE, {}, {step: frozenset(range(parts))}) == own


def test_older_steps_are_not_copied() -> None:
    older = KeptStep(BEFORE, 9, 4)
    assert own_parts(ROUND, older, PLACE, {4: ALL}, {older: ALL}) == frozenset()


def test_each_part_goes_to_each_target_once() -> None:
    first, second = Member(1, "00000000"), Member(2, "00000000")
    own, got = frozenset({0, 1}), {first: {0}}
    assert list(pending_copies(own, [first, second], {}).items()) == [(first, own), (second, own)]
    assert list(pending_copies(own, [second, first], got).items()) == [(second, own), (first, {1})]
    assert pending_copies(own, [first], {first: {0, 1}}) == {}


# -- what is answered ------------------------------------------------------------------------------


def answer(
    step: KeptStep,
    held: Holdings | None = None,
    *,
    known: KeeperRound | None = ROUND,
    sender: Lineage = NOW,
    own: Holdings | None = None,
    has_room: bool = True,
) -> OfferAnswer:
    return answer_offer(known, HISTORY, sender, step, 0, held=held or {}, own=own or {}, has_room=has_room)


def test_a_part_is_wanted_if_it_is_at_stake_and_there_is_room() -> None:
    assert answer(now(1)) is OfferAnswer.WANT
    assert answer(RESTORED) is OfferAnswer.WANT
    assert answer(now(1), has_room=False) is OfferAnswer.FULL


def test_a_part_that_is_held_is_not_wanted_whatever_else_is_the_case() -> None:
    held = {now(1): frozenset({0})}
    assert answer(now(1), held) is OfferAnswer.HAVE
    assert answer(now(1), held, known=None, has_room=False) is OfferAnswer.HAVE
    assert answer(now(1), {now(1): frozenset({1})}) is OfferAnswer.WANT


@pytest.mark.parametrize(
    ("known", "sender"),
    [
        (None, NOW),
        (replace(ROUND, is_running=False), NOW),
        (ROUND, NEXT),
        (ROUND, BEFORE),
        (ROUND, Lineage(3, "x")),
        (replace(ROUND, committed=now(1)), NOW),
    ],
    ids=[
        "while a round forms",
        "before the workers run",
        "the receiver is behind",
        "the sender is behind",
        "two active states of one round",
        "the sender does not know the commit",
    ],
)
def test_one_of_two_keepers_that_do_not_agree_waits(known: KeeperRound | None, sender: Lineage) -> None:
    assert answer(now(1), known=known, sender=sender) is OfferAnswer.LATER


def test_a_step_that_left_the_history_is_dead_unless_the_receiver_is_behind() -> None:
    dead = KeptStep(BEFORE, 11, 4)
    assert answer(dead, sender=BEFORE) is OfferAnswer.DEAD
    assert answer(KeptStep(NEXT, 1, 4), sender=NEXT) is OfferAnswer.LATER


def test_a_third_step_of_a_part_waits_for_the_commit() -> None:
    part = frozenset({0})
    assert answer(now(2), {now(1): part}) is OfferAnswer.WANT
    assert answer(now(3), {now(1): part, now(2): part}) is OfferAnswer.LATER
    # The receiver's own parts, other parts, and what is older than the restored step do not count.
    assert answer(now(3), {now(1): part, now(2): part}, own={now(1): part}) is OfferAnswer.WANT
    assert answer(now(3), {now(1): part, now(2): frozenset({1})}) is OfferAnswer.WANT
    assert answer(now(3), {now(1): part, KeptStep(BEFORE, 9, 4): part}) is OfferAnswer.WANT


def test_a_part_that_was_skipped_here_is_not_taken_from_a_peer() -> None:
    part, other = frozenset({0}), frozenset({1})
    assert answer(now(2), {now(3): part}, own={now(3): part}) is OfferAnswer.LATER
    assert answer(now(2), {now(3): other}, own={now(3): other}) is OfferAnswer.WANT
    assert answer(now(2), {now(1): part}, own={now(1): part}) is OfferAnswer.WANT


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), max_size=30), st.integers(0, 6))
def test_whatever_is_offered_no_more_than_two_steps_of_a_part_are_held(
    offers: list[tuple[int, int]], committed: int
) -> None:
    known = replace(ROUND, committed=now(committed) if committed else None)
    held: dict[KeptStep, frozenset[int]] = {}
    for number, index in offers:
        found = answer_offer(known, HISTORY, NOW, now(number), index, held=held, own={}, has_room=True)
        if found is OfferAnswer.WANT:
            held[now(number)] = held.get(now(number), frozenset()) | {index}
            assert number > committed
        assert all(sum(part in parts for parts in held.values()) <= 2 for part in range(4))
