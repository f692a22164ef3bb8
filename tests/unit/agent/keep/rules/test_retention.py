"""In any order of events a keeper keeps the committed, the oldest uncommitted and the newest step."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.retention import (
    KeeperRound,
    announced,
    incomplete,
    is_skipped,
    latest_point,
    learn,
    may_skip,
    oldest_uncommitted,
    select_alive,
    superseded,
    unneeded,
)
from elasticjob_api.kept_steps import History, HistoryEntry, KeptStep, Lineage

BEFORE, NOW, OTHER = Lineage(2, "b"), Lineage(3, "c"), Lineage(3, "d")
ROUND = KeeperRound(NOW, is_running=True)


def now(number: int) -> KeptStep:
    return KeptStep(NOW, number, 2)


def before(number: int) -> KeptStep:
    return KeptStep(BEFORE, number, 2)


RESTORED = KeeperRound(NOW, restored=before(10), is_running=True)


def test_the_oldest_uncommitted_step_is_the_one_to_copy() -> None:
    assert oldest_uncommitted(ROUND, [now(3), now(1), now(2)]) == now(1)
    assert oldest_uncommitted(replace(ROUND, committed=now(1)), [now(1), now(2), now(3)]) == now(2)
    assert oldest_uncommitted(ROUND, []) is None


def test_the_restored_step_is_copied_again_and_older_ones_are_not() -> None:
    assert oldest_uncommitted(RESTORED, [before(9), before(10), now(11)]) == before(10)
    assert oldest_uncommitted(RESTORED, [before(9)]) is None


def test_the_steps_between_the_oldest_and_the_newest_are_superseded() -> None:
    assert superseded(ROUND, [now(4), now(1), now(2), now(3)]) == [now(2), now(3)]
    assert superseded(replace(ROUND, committed=now(1)), [now(1), now(2), now(3)]) == []
    assert superseded(RESTORED, [before(8), before(9), before(10), now(11), now(12)]) == [now(11)]


def test_a_counted_step_is_not_superseded() -> None:
    assert superseded(ROUND, [now(1), now(2), now(3), now(4)], {now(2)}) == [now(3)]


@pytest.mark.parametrize(
    ("own", "before", "expected"),
    [
        ({now(5): {0}}, {1: 4}, [now(5)]),
        ({now(5): {0}}, {1: -1}, [now(5)]),
        ({now(5): {0}, now(10): {0, 1}}, {0: 9, 1: 4}, [now(5)]),
        ({now(5): {0}}, {0: 5}, []),
        ({now(5): {0}}, {1: 5}, []),
        ({now(5): {0, 1}}, {1: 4}, []),
        ({now(10): {0}}, {1: 4}, []),
        ({KeptStep(NOW, 5, 3): {0}}, {1: 4}, []),
        ({before(5): {0}}, {1: 4}, []),
    ],
    ids=[
        "passed",
        "the first number of its worker",
        "beside the new step",
        "by the worker of its own part",
        "published and lost again",
        "sent by a peer",
        "the new step itself",
        "another count of parts",
        "another round",
    ],
)
def test_a_step_is_incomplete_when_a_worker_has_passed_it_without_its_part(
    own: dict[KeptStep, set[int]], before: dict[int, int], expected: list[KeptStep]
) -> None:
    held = {step: frozenset(parts) for step, parts in own.items()}
    assert incomplete(ROUND, held, now(10), before) == expected
    assert incomplete(replace(ROUND, committed=now(9)), held, now(10), before) == []


def test_own_parts_that_may_be_superseded_are_not_announced() -> None:
    own, both = frozenset({0}), frozenset({0, 1})
    held = {before(10): both, now(1): both, now(2): both, now(3): own}
    mine = dict.fromkeys((now(1), now(2), now(3)), own)
    lasting = {before(10): both, now(1): both, now(2): frozenset({1})}
    assert announced(ROUND, mine, held) == lasting
    assert announced(replace(ROUND, committed=now(3)), mine, held) == held


def test_a_step_below_the_announced_oldest_one_is_not_taken() -> None:
    assert is_skipped(ROUND, [now(3)], now(2))
    assert is_skipped(replace(ROUND, committed=now(2)), [], now(2))
    assert not is_skipped(ROUND, [now(1)], now(2))
    assert not is_skipped(RESTORED, [before(10)], now(11))
    assert not is_skipped(ROUND, [], now(1))


def test_a_commit_drops_what_is_older() -> None:
    point = SafePoint(NOW, committed=now(2))
    held = [before(10), now(1), now(2), now(3)]
    assert unneeded(learn(RESTORED, point), point, held) == [before(10), now(1)]


def test_a_commit_of_an_older_step_leaves_the_restored_one_uncommitted() -> None:
    point = SafePoint(NOW, committed=before(9))
    known = learn(RESTORED, point)
    assert unneeded(known, point, [before(8), before(9), before(10)]) == [before(8)]
    assert oldest_uncommitted(known, [before(9), before(10)]) == before(10)


def test_the_floor_drops_uncommitted_steps_only() -> None:
    point = SafePoint(NOW, committed=now(1), floor=now(4))
    held = [now(1), now(2), now(3), now(4), now(5)]
    assert unneeded(learn(ROUND, point), point, held) == [now(2), now(3)]


def test_the_floor_drops_nothing_older_than_the_restored_step() -> None:
    point = SafePoint(NOW, floor=now(12))
    assert unneeded(learn(RESTORED, point), point, [before(9), before(10), now(11), now(12)]) == [before(10), now(11)]


def test_a_point_of_another_round_or_before_the_start_changes_nothing() -> None:
    for known, point in (
        (ROUND, SafePoint(OTHER, committed=now(2), floor=now(3))),
        (ROUND, SafePoint(BEFORE, committed=now(2), floor=now(3))),
        (replace(ROUND, is_running=False), SafePoint(NOW, committed=now(2), floor=now(3))),
    ):
        assert learn(known, point) == known
        assert unneeded(known, point, [now(1), now(2), now(3)]) == []


def test_an_older_point_takes_no_commit_back() -> None:
    known = replace(ROUND, committed=now(5))
    assert learn(known, SafePoint(NOW, committed=now(2))) == known
    assert learn(known, SafePoint(NOW)) == known


@pytest.mark.parametrize(
    ("last", "point", "counts"),
    [
        (None, SafePoint(NOW, now(1)), SafePoint(NOW, now(1))),
        (SafePoint(BEFORE, before(9)), SafePoint(NOW), SafePoint(NOW)),
        (SafePoint(NOW, now(1), now(4)), SafePoint(NOW, now(2), now(3)), SafePoint(NOW, now(2), now(4))),
        (SafePoint(NOW, now(1), now(4)), SafePoint(NOW), SafePoint(NOW, now(1), now(4))),
        (SafePoint(NOW, now(1)), SafePoint(BEFORE, before(9)), SafePoint(NOW, now(1))),
        (None, SafePoint(BEFORE, before(9)), None),
        (SafePoint(NOW, now(1)), SafePoint(Lineage(4, "e")), SafePoint(Lineage(4, "e"))),
    ],
)
def test_of_one_round_the_facts_of_all_answers_count_and_none_of_an_earlier_round(
    last: SafePoint | None, point: SafePoint, counts: SafePoint | None
) -> None:
    assert latest_point(ROUND, last, point) == counts


def test_between_rounds_each_answer_of_another_round_counts() -> None:
    assert latest_point(None, SafePoint(NOW), SafePoint(BEFORE)) == SafePoint(BEFORE)


def test_a_step_for_which_there_is_no_room_is_skipped_if_an_older_one_waits_for_its_copies() -> None:
    assert may_skip(ROUND, [now(1), now(2)], now(2))
    assert not may_skip(ROUND, [now(2)], now(2))
    assert not may_skip(replace(ROUND, committed=now(1)), [now(1), now(2)], now(2))
    assert not may_skip(ROUND, [before(9), now(2)], now(2))
    assert may_skip(RESTORED, [before(9), before(10), now(11)], now(11))


def test_a_step_restored_from_another_run_is_older_than_the_round_although_its_number_is_higher() -> None:
    known = KeeperRound(NOW, restored=KeptStep(Lineage(90, "z"), 500, 2), is_running=True)
    assert oldest_uncommitted(known, [now(1), now(2)]) == now(1)
    assert unneeded(known, SafePoint(NOW, floor=now(2)), [now(1), now(2)]) == [now(1)]


def test_only_what_the_training_descends_from_is_kept_at_an_active_state() -> None:
    history = History((HistoryEntry(BEFORE, 10),))
    part = frozenset({0})
    held = {before(10): part, before(11): part, now(1): part, KeptStep(OTHER, 1, 2): part}
    assert select_alive(held, history, NOW) == {before(10): part, now(1): part}
    assert select_alive(held, history, None) == {before(10): part}


# -- any order of events ---------------------------------------------------------------------------


@dataclass
class OneKeeper:
    """A keeper that only its own rules drive. Other members commit and skip at will."""

    known: KeeperRound
    own: set[KeptStep] = field(default_factory=set)
    replicas: set[KeptStep] = field(default_factory=set)

    def take(self, step: KeptStep) -> None:
        if self.known.committed is None or step > self.known.committed:
            self.own.add(step)
            self.own -= set(superseded(self.known, self.own))

    def receive(self, step: KeptStep) -> None:
        if self.known.is_at_stake(step):
            self.replicas.add(step)

    def hear(self, point: SafePoint) -> None:
        self.known = learn(self.known, point)
        dropped = set(unneeded(self.known, point, self.own | self.replicas))
        self.own -= dropped
        self.replicas -= dropped


numbers = st.integers(1, 9)
optional_steps = st.none() | numbers.map(now) | st.just(before(10))
events = st.lists(
    st.one_of(
        st.just("take"),
        numbers.map(now),
        st.builds(SafePoint, st.sampled_from([NOW, NOW, NOW, OTHER, BEFORE]), optional_steps, optional_steps),
    ),
    max_size=40,
)


@given(events=events, restored=st.booleans(), running=st.booleans())
def test_in_any_order_the_steps_that_matter_stay_and_no_more_than_three_of_the_round(
    events: list[str | KeptStep | SafePoint], *, restored: bool, running: bool
) -> None:
    keeper = OneKeeper(replace(RESTORED if restored else ROUND, is_running=running))
    keeper.own = {before(9), before(10)} if restored else set()
    number = 0
    for event in events:
        committed, oldest = keeper.known.committed, oldest_uncommitted(keeper.known, keeper.own)
        had_committed = committed in keeper.own
        if event == "take":
            number += 1
            keeper.take(now(number))
            assert now(number) in keeper.own or (committed is not None and committed >= now(number))
        elif isinstance(event, KeptStep):
            keeper.receive(event)
        elif isinstance(event, SafePoint):
            keeper.hear(event)
            if event.lineage != NOW or not running:
                assert oldest is None or oldest in keeper.own
            elif oldest is not None and oldest not in keeper.own:
                newest = keeper.known.committed
                is_floored = event.floor is not None and oldest < event.floor
                assert is_floored or (newest is not None and oldest < newest)
        assert not had_committed or committed in keeper.own or keeper.known.committed != committed
        assert sum(keeper.known.is_of_round(step) for step in keeper.own) <= 3
