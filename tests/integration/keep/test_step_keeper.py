"""The steps that one keeper drops, with a real volume and answers of the commit channel."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.keeper.replica_sender import ReplicaSender
from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.replication import OfferAnswer, RoundPlace
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import HandshakeError
from elasticjob_agent.keep.transfer.session import KeeperCredentials
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_api.kept_steps import History, HistoryEntry, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import LINEAGE, part_of, publish


@pytest.fixture
def keeper(keep_dir: Path) -> Iterator[StepKeeper]:
    with opened(keep_dir) as keeper:
        yield keeper


def opened(keep_dir: Path, size_limit: int | None = None) -> "closing[StepKeeper]":
    """Return a keeper that the block closes."""
    request = OpenRequest(str(keep_dir), JOB, RUN, size_limit)
    return closing(StepKeeper(request, report=print, on_change=lambda: None))


def test_a_step_that_is_published_below_a_known_floor_is_not_kept(keeper: StepKeeper) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2), copies=1))
    keeper.start()
    keeper.learn(SafePoint(LINEAGE, floor=KeptStep(LINEAGE, 10, 2)))
    for number in (8, 9, 10, 11):
        publish(directory, f"step-{number}.1-of-2")
        keeper.take_published()
    assert [step.number for step in keeper.volume.holdings()] == [10, 11]
    assert keeper.parts_to_copy() == (KeptStep(LINEAGE, 10, 2), frozenset({1}))


BEFORE = Lineage(LINEAGE.round - 1, "before")


@pytest.mark.parametrize(
    "old",
    [
        SafePoint(BEFORE, committed=KeptStep(BEFORE, 7, 2), floor=KeptStep(BEFORE, 9, 2)),
        SafePoint(LINEAGE, floor=KeptStep(LINEAGE, 9, 2)),
    ],
    ids=["of an earlier round", "of an earlier leader"],
)
def test_a_late_answer_does_not_lower_the_known_floor(keeper: StepKeeper, old: SafePoint) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2), copies=1))
    keeper.start()
    floor = KeptStep(LINEAGE, 10, 2)
    keeper.learn(SafePoint(LINEAGE, floor=floor))
    keeper.learn(old)
    for number in (9, 10, 11):
        publish(directory, f"step-{number}.1-of-2")
        keeper.take_published()
    assert keeper.parts_to_copy() == (floor, frozenset({1}))


def test_an_answer_for_the_next_round_is_applied_there(keeper: StepKeeper) -> None:
    place, later = RoundPlace(1, 2, 1, 1, 2), Lineage(LINEAGE.round + 1, "later")
    keeper.begin(BeginRequest(RUN, LINEAGE, place=place, copies=1))
    keeper.start()
    keeper.learn(SafePoint(LINEAGE, floor=KeptStep(LINEAGE, 10, 2)))
    keeper.learn(SafePoint(later, floor=KeptStep(later, 20, 2)))
    directory = keeper.begin(BeginRequest(RUN, later, place=place, copies=1))
    keeper.start()
    for number in (19, 20, 21):
        publish(directory, f"step-{number}.1-of-2")
        keeper.take_published()
    assert keeper.parts_to_copy() == (KeptStep(later, 20, 2), frozenset({1}))


def test_a_step_is_dropped_once_a_worker_publishes_a_newer_one_without_its_part_of_that(keeper: StepKeeper) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(0, 2, 0, 2, 4), copies=1))
    keeper.start()
    for name in ("step-8.0-of-4", "step-9.0-of-4", "step-8.1-of-4", "step-9.1-of-4", "step-10.0-of-4"):
        publish(directory, name)
        keeper.take_published()
    assert keeper.parts_to_copy() == (KeptStep(LINEAGE, 8, 4), frozenset({0, 1})), "a worker may be later"
    keeper.learn(SafePoint(LINEAGE, committed=KeptStep(LINEAGE, 8, 4)))
    publish(directory, "step-11.0-of-4")
    keeper.take_published()
    assert keeper.parts_to_copy() == (KeptStep(LINEAGE, 10, 4), frozenset({0}))
    publish(directory, "step-11.1-of-4")
    keeper.take_published()
    assert keeper.parts_to_copy() == (KeptStep(LINEAGE, 11, 4), frozenset({0, 1}))


@pytest.mark.parametrize(("highest", "shown"), [(8, KeptStep(LINEAGE, 8, 1)), (7, None)])
def test_a_committed_step_that_a_later_round_has_given_up_is_shown_no_more(
    keeper: StepKeeper, highest: int, shown: KeptStep | None
) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE))
    keeper.start()
    publish(directory, "step-8")
    keeper.take_published()
    keeper.learn(SafePoint(LINEAGE, committed=KeptStep(LINEAGE, 8, 1)))
    keeper.begin(BeginRequest(RUN, Lineage(9, "later"), History((HistoryEntry(LINEAGE, highest),))))
    assert keeper.committed == shown


def test_a_step_whose_parts_collide_is_neither_announced_nor_held_nor_received_again(keeper: StepKeeper) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(0, 2, 0, 2, 4), copies=1))
    keeper.start()
    publish(directory, "step-8.0-of-4", {"state.pt": b"one"})
    publish(directory, "step-8.1-of-4", {"state.pt": b"another"})
    keeper.take_published()
    announced = keeper.announcement(None)
    assert announced is not None
    assert announced.held == {}
    assert keeper.seal() == {}
    assert keeper.answer_offer(LINEAGE, part_of(8, 2, 4)) is OfferAnswer.DEAD


def test_steps_that_were_announced_and_dropped_need_no_memory(keeper: StepKeeper) -> None:
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(0, 2, 0, 1, 2), copies=1))
    keeper.start()
    for number in range(1, 20):
        publish(directory, f"step-{number}.0-of-2")
        keeper.take_published()
        assert keeper.announcement(None) is not None
        keeper.learn(SafePoint(LINEAGE, KeptStep(LINEAGE, number, 2)))
    assert len(keeper._told) <= 2


def test_a_keeper_that_replaces_another_one_keeps_no_more_of_what_waited_for_it(keep_dir: Path) -> None:
    begun = BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2), copies=1)
    with opened(keep_dir) as first:
        directory = first.begin(begun)
        first.start()
        publish(directory, "step-1.1-of-2")
        first.take_published()
        assert first.announcement(None) is not None
    for number in range(2, 50):
        publish(directory, f"step-{number}.1-of-2")
    with opened(keep_dir) as second:
        second.begin(begun)
        second.start()
        assert [step.number for step in second.volume.holdings()] == [1, 49]
        assert second.skipped == 47
        publish(directory, "step-50.1-of-2")
        second.take_published()
        assert [step.number for step in second.volume.holdings()] == [1, 50]


def test_a_keeper_that_learns_of_a_commit_before_its_workers_have_started_keeps_that_step(keep_dir: Path) -> None:
    begun = BeginRequest(RUN, LINEAGE, place=RoundPlace(0, 2, 0, 1, 2), copies=1)
    committed, floor = KeptStep(LINEAGE, 1, 2), KeptStep(LINEAGE, 2, 2)
    with opened(keep_dir) as first:
        directory = first.begin(begun)
        first.start()
        for number in (1, 2):
            publish(directory, f"step-{number}.0-of-2")
            first.take_published()
            first.learn(SafePoint(LINEAGE, committed))
    with opened(keep_dir) as second:
        second.begin(begun)
        second.learn(SafePoint(LINEAGE, committed, floor))  # the leader's keeper sends no answer twice
        second.start()
        assert list(second.volume.holdings()) == [committed, floor]
        assert second.committed == committed
        announced = second.announcement(None)
        assert announced is not None
        assert (announced.committed, announced.oldest_uncommitted) == (committed, floor)


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions were called meanwhile; each item of a generator counts."""
    calls = 0

    def count(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_a_part_does_not_grow_with_their_number(keep_dir: Path) -> None:
    costs = []
    with opened(keep_dir, 1 << 30) as keeper:
        directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2), copies=1))
        keeper.start()
        for number, count in ((1, 50), (2, 400)):
            for index in range(0, 2 * count, 2):
                publish(directory, f"step-{number}.{index}-of-1000")
            costs.append(calls_of(keeper.take_published) / count)
            assert len(keeper.volume.holdings()[KeptStep(LINEAGE, number, 1000)]) == count
    assert costs[1] < 2 * costs[0], f"calls for each part: {costs}"


def test_a_step_that_is_taken_lets_each_directory_be_read_about_once(keep_dir: Path) -> None:
    reads = 0

    def count(_frame: FrameType, event: str, called: object) -> None:
        nonlocal reads
        reads += event == "c_call" and called is os.scandir

    with opened(keep_dir, 1 << 30) as keeper:
        directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2), copies=1))
        keeper.start()
        for number in range(1, 4):
            publish(directory, f"step-{number}.1-of-2")
            sys.setprofile(count)
            keeper.take_published()
            sys.setprofile(None)
        directories = sum(1 for _ in os.walk(keep_dir))
    assert reads / 3 < 2 * directories


def begin_copies(keeper: StepKeeper) -> tuple[ReplicaSender, Path]:
    """Begin a round of two nodes with one copy; return the sender of this node, and where its script publishes."""
    place, members = RoundPlace(0, 2, 0, 1, 2), (Member(0, "0000000a"), Member(1, "0000000b"))
    sender = ReplicaSender(KeeperDialer(_no_credentials), keeper, Throttle(), on_change=lambda: None)
    directory = keeper.begin(BeginRequest(RUN, LINEAGE, place=place, copies=1))
    keeper.start()
    sender.begin(CopyRound(LINEAGE, place, shift=1, copies=1))
    sender.set_peers(RoundPeers(LINEAGE, members, ("a", "b")))
    return sender, directory


def test_a_look_for_copies_costs_no_more_where_a_step_has_many_parts(keeper: StepKeeper) -> None:
    sender, directory = begin_copies(keeper)
    costs = []
    for first, end in ((0, 50), (50, 400)):
        for index in range(first, end):
            publish(directory, f"step-1.{index}-of-1000")
        keeper.take_published()
        assert sender.settled() is None
        costs.append(calls_of(sender.settled))
    assert costs[1] < 2 * costs[0], f"calls of a look: {costs}"


def test_a_commit_is_proof_of_copies_that_this_node_did_not_make(keeper: StepKeeper) -> None:
    """Every node publishes the whole step. The leader commits it before this node has asked its peer."""
    step = KeptStep(LINEAGE, 7, 1)
    sender, directory = begin_copies(keeper)
    publish(directory, "step-7")
    keeper.take_published()
    assert sender.copies_of(step) == 0
    keeper.learn(SafePoint(LINEAGE, committed=step))
    assert sender.copies_of(step) == 1


def _no_credentials() -> KeeperCredentials:
    raise HandshakeError("no peer is dialed")
