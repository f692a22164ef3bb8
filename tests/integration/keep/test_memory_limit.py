"""The memory of one volume while the thread that deletes gets no processor: it stays within the limit of the rules."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.replication import OfferAnswer, RoundPlace
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import LINEAGE, offer, part_of, publish, receive

SIZE = 1 << 16
STATE = {"state": b"x" * SIZE}
STEPS = 12


class Node:
    """The keeper of the member of rank 0 of two, without a thread that deletes what is dropped."""

    def __init__(self, keep_dir: Path, *, size_limit: int | None = None) -> None:
        opened = OpenRequest(str(keep_dir), JOB, RUN, size_limit=size_limit)
        self.keeper = StepKeeper(opened, report=print, on_change=lambda: None)
        self.folder = keep_dir
        place = RoundPlace(rank=0, members=2, base_rank=0, workers=1, world_size=2)
        self.incoming = self.keeper.begin(BeginRequest(RUN, LINEAGE, place=place, copies=1))
        self.keeper.start()

    def close(self) -> None:
        """Close its keeper."""
        self.keeper.close()

    def publish(self, number: int) -> None:
        """Publish a part and take it, as the keeper's main thread does."""
        publish(self.incoming, f"step-{number}.0-of-2", STATE)
        self.keeper.take_new()
        self.keeper.memory.enforce()

    def offer(self, number: int) -> OfferAnswer:
        """Answer a peer's offer of a part, and make way for it, as a thread of a transfer does."""
        answer = self.keeper.answer_offer(LINEAGE, part_of(number, 1, 2))
        if answer is OfferAnswer.WANT:
            self.keeper.drop_outdated(part_of(number, 1, 2).step)
            self.keeper.memory.enforce(SIZE)
        return answer

    def parts(self) -> float:
        """Return the size of everything in the volume, in parts."""
        files = (path for path in self.folder.rglob("state") if path.is_file())
        return sum(path.stat().st_size for path in files) / SIZE


@pytest.fixture
def node(keep_dir: Path) -> Iterator[Node]:
    with closing(Node(keep_dir)) as node:
        yield node


def receive_half(node: Node, number: int) -> None:
    """Let a peer offer a part of this step, and send all but its last byte."""
    assert node.offer(number) is OfferAnswer.WANT
    receipt = offer(node.keeper.volume, part_of(number, 1, 2), STATE)
    receipt.write(0, STATE["state"][:-1])
    receipt.close()


def test_steps_that_come_faster_than_their_copies_need_the_memory_of_the_rules(node: Node) -> None:
    peaks = []
    for number in range(1, STEPS):
        node.publish(number)
        peaks.append(node.parts())
    assert max(peaks) <= 3 + 2


def test_commits_leave_no_more_memory_than_the_rules_allow(node: Node) -> None:
    peaks = []
    for number in range(1, STEPS):
        node.publish(number)
        assert node.offer(number) is OfferAnswer.WANT
        assert receive(node.keeper.volume, part_of(number, 1, 2), STATE)
        peaks.append(node.parts())
        node.keeper.learn(SafePoint(LINEAGE, committed=KeptStep(LINEAGE, number, 2)))
    assert max(peaks) <= 3 + 2


def test_parts_that_arrived_half_go_when_the_floor_has_passed_them(node: Node) -> None:
    for number in range(1, STEPS):
        receive_half(node, number)
        node.keeper.learn(SafePoint(LINEAGE, floor=KeptStep(LINEAGE, number + 1, 2)))
        assert node.keeper.volume.partial_parts() == set()


def test_parts_that_arrived_half_go_when_a_newer_step_is_offered(node: Node) -> None:
    for number in range(1, STEPS):
        receive_half(node, number)
        assert node.keeper.volume.partial_parts() == {KeptPart(KeptStep(LINEAGE, number, 2), 1)}


def test_memory_that_an_open_transfer_will_need_counts(node: Node) -> None:
    for number in (1, 2, 3):
        node.publish(number)
    receipt = offer(node.keeper.volume, part_of(1, 1, 2), {"state": b"x" * 2 * SIZE})
    node.publish(4)
    assert list((node.folder / "trash").iterdir()) == []
    receipt.close()


def test_little_that_was_dropped_is_left_to_the_thread_that_deletes(node: Node) -> None:
    node.publish(1)
    node.keeper.learn(SafePoint(LINEAGE, committed=KeptStep(LINEAGE, 1, 2)))
    node.publish(2)
    node.keeper.learn(SafePoint(LINEAGE, committed=KeptStep(LINEAGE, 2, 2)))
    node.keeper.memory.enforce()
    assert node.parts() == len((1, 2))


def test_a_limit_counts_nothing_as_room_that_is_only_being_deleted(keep_dir: Path) -> None:
    """The limit does not count the trash, so what leaves the trash gives no room below the limit."""
    with closing(Node(keep_dir, size_limit=2 * SIZE + SIZE // 2)) as node:
        for number in range(1, STEPS):
            node.publish(number)
            assert node.keeper.volume.holdings().keys() == {KeptStep(LINEAGE, 1, 2)}
    assert node.keeper.skipped == STEPS - 2
