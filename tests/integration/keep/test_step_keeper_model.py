"""Random histories: a `StepKeeper` with a volume and the node of the simulation hold, announce, answer and drop alike.

The simulation (`tests/unit/agent/keep/sim/`) shows that the rules keep the guarantees. This machine shows that the
keeper of the product applies the same rules in the same order.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules import replication, retention
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.replication import OfferAnswer, RoundPlace
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import History, HistoryEntry, Holdings, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member
from tests.integration.keep.conftest import memory
from tests.integration.keep.parts import publish, receive
from tests.unit.agent.keep.sim.node import SimNode, Workers
from tests.unit.agent.keep.sim.rules import Rules
from tests.unit.rendezvous.conftest import STATEFUL

_FILES = {"state": b"x"}
_RULES = Rules()
numbers = st.integers(0, 7)
few = st.integers(0, 2)


class StepKeeperMachine(RuleBasedStateMachine):
    """One node, twice: its keeper with a volume in memory, and the node of the simulation."""

    def __init__(self, kind: type[StepKeeper] = StepKeeper) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="keep-", dir=memory()))
        opened = OpenRequest(str(self.folder / "volume"), "/jobs/a", "run")
        self.keeper = kind(opened, report=lambda _: None, on_change=lambda: None)
        self.node = SimNode(Member(0, "0000000a"))
        self.history = History()
        self.rounds = 0
        self.published = 0
        self.parts = 1
        self.rank = 0

    def teardown(self) -> None:
        """Delete the volume."""
        self.keeper.close()
        shutil.rmtree(self.folder)

    # -- what both have in common ----------------------------------------------------------------------

    @property
    def lineage(self) -> Lineage:
        """The lineage of the present round."""
        return Lineage(self.rounds, f"{self.rounds:08x}")

    @property
    def is_in_round(self) -> bool:
        """Whether a round is active."""
        return self.node.known is not None

    def steps(self) -> list[KeptStep]:
        """Return steps that may matter: those that are held, and some of the round."""
        of_round = [KeptStep(self.lineage, number, self.parts) for number in range(1, self.published + 2)]
        return sorted({*self.node.volume, *of_round})

    def drop_unneeded(self) -> None:
        """Let the node of the simulation apply the last answer, as its job does when it gets one."""
        if self.node.known is not None and self.node.last_point is not None:
            for step in retention.unneeded(self.node.known, self.node.last_point, self.node.volume):
                self.node.drop(step)

    def drop_superseded(self) -> None:
        """Let the node of the simulation drop what lies between its oldest and its newest own step."""
        if self.node.known is not None and self.node.is_running:
            own = self.node.own()
            for step in retention.superseded(self.node.known, own, self.node.counted()):
                self.node.drop(step, own[step])

    # -- rounds ----------------------------------------------------------------------------------------

    @initialize(parts=st.integers(1, 3))
    def first_round(self, parts: int) -> None:
        self.enter(None, parts, 0)

    @precondition(lambda self: not self.is_in_round)
    @rule(choice=numbers, parts=st.integers(1, 3), rank=few)
    def a_round_begins(self, choice: int, parts: int, rank: int) -> None:
        whole = sorted(step for step, held in self.node.volume.items() if len(held) == step.parts)
        self.enter(whole[choice % len(whole)] if whole and choice else None, parts, rank % parts)

    def enter(self, restored: KeptStep | None, parts: int, rank: int) -> None:
        """Begin a round in both, with one part for each of `parts` members."""
        before = self.history.with_lineage(self.lineage) if self.rounds else History()
        self.rounds += 1
        self.history = History() if restored is None else _descends_from(before, restored)
        self.parts, self.rank = parts, rank
        place = RoundPlace(rank, parts, rank, 1, parts)
        self.keeper.begin(BeginRequest("run", self.lineage, self.history, restored, place))
        node = self.node
        node.volume = dict(retention.select_alive(node.volume, self.history, self.lineage))
        node.workers, node.lineage = Workers.RESTORING, self.lineage
        node.known, node.place = retention.KeeperRound(self.lineage, restored), place
        node.indices, node.told, node.last_point = {}, {}, None
        self.published = 0

    @precondition(lambda self: self.node.workers is Workers.RESTORING)
    @rule()
    def the_workers_start(self) -> None:
        assert self.node.known is not None
        self.keeper.start()
        self.node.workers, self.node.known = Workers.RUNNING, replace(self.node.known, is_running=True)
        if self.node.last_point is not None:
            self.node.known = retention.learn(self.node.known, self.node.last_point)
        self.drop_unneeded()
        self.drop_superseded()

    @precondition(lambda self: self.is_in_round)
    @rule()
    def the_round_ends(self) -> None:
        assert self.keeper.seal() == self.node.volume
        self.node.stop_workers()

    # -- parts -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.node.is_running)
    @rule(skipped=st.sampled_from([0, 0, 0, 1, 2]))
    def the_script_publishes(self, skipped: int) -> None:
        assert self.node.known is not None
        self.published += 1 + skipped
        step = KeptStep(self.lineage, self.published, self.parts)
        directory = self.folder / "volume" / "in" / str(self.lineage)
        publish(directory, f"step-{self.published}.{self.rank}-of-{self.parts}", _FILES)
        self.keeper.take_published()
        node = self.node
        node.indices[self.parts] = node.indices.get(self.parts, frozenset()) | {self.rank}
        if not retention.is_skipped(self.node.known, node.own(), step):
            node.add(step, self.rank, self.lineage)
            self.drop_unneeded()
            self.drop_superseded()

    @precondition(lambda self: self.is_in_round)
    @rule(choice=numbers, index=few, older=st.booleans())
    def a_peer_offers_a_part(self, choice: int, index: int, *, older: bool) -> None:
        steps = self.steps()
        self.receive_part(steps[choice % len(steps)], index, older=older)

    @precondition(lambda self: self.node.is_running and self.published == 0)
    @rule()
    def a_peer_is_ahead_of_this_node(self) -> None:
        self.receive_part(KeptStep(self.lineage, 1, self.parts), self.rank)
        self.it_announces(is_settled=False)

    def receive_part(self, step: KeptStep, index: int, *, older: bool = False) -> None:
        """Let a peer offer a part, and send it if it is wanted."""
        part = KeptPart(step, index % step.parts)
        sender = Lineage(self.rounds - 1, "other") if older else self.lineage
        node = self.node
        expected = replication.answer_offer(
            node.known,
            self.history.with_lineage(self.lineage),
            sender,
            step,
            part.index,
            held=node.volume,
            own=node.own(),
            has_room=True,
        )
        assert self.keeper.answer_offer(sender, part) is expected
        if expected is OfferAnswer.WANT:
            assert receive(self.keeper.volume, part, _FILES)
            self.keeper.on_received()
            node.add(step, part.index, self.lineage)
            self.drop_unneeded()
            self.drop_superseded()

    # -- commits ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_in_round)
    @rule(is_settled=st.booleans())
    def it_announces(self, *, is_settled: bool) -> None:
        oldest = self.node.oldest()
        told = self.keeper.announcement(oldest if is_settled else None)
        expected = self.node.announcement(_RULES, is_settled=is_settled and oldest is not None)
        assert told == replace(expected, persist=None)  # another part of the keeper adds what is on disk
        for step, parts in told.held.items():
            self.node.told[step] = self.node.told.get(step, frozenset()) | parts

    @precondition(lambda self: self.is_in_round)
    @rule(committed=st.none() | numbers, floor=st.none() | numbers, other_round=st.sampled_from([0, 0, 1, -1]))
    def an_answer_arrives(self, committed: int | None, floor: int | None, *, other_round: int) -> None:
        assert self.node.known is not None
        steps = self.steps()
        lineage = Lineage(self.rounds + other_round, "other") if other_round else self.lineage
        chosen = [None if number is None else steps[number % len(steps)] for number in (committed, floor)]
        point = SafePoint(lineage, chosen[0], chosen[1])
        self.keeper.learn(point)
        self.node.last_point = retention.latest_point(self.node.known, self.node.last_point, point)
        if self.node.last_point is not None:
            self.node.known = retention.learn(self.node.known, self.node.last_point)
        self.drop_unneeded()

    # -- the comparison --------------------------------------------------------------------------------

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.keeper.volume.holdings() == self.node.volume

    @invariant()
    def both_copy_the_same(self) -> None:
        oldest = self.node.oldest() if self.node.is_running else None
        assert self.keeper.parts_to_copy() == (None if oldest is None else (oldest, self.node.own()[oldest]))


def _descends_from(before: History, restored: KeptStep) -> History:
    lineages = [entry.lineage for entry in before.entries]
    behind = before.entries[lineages.index(restored.lineage) + 1 :]
    return History((HistoryEntry(restored.lineage, restored.number), *behind))


TestStepKeeper = StepKeeperMachine.TestCase
TestStepKeeper.settings = STATEFUL


class _ForgetsAnnouncements(StepKeeper):
    """A wrong keeper: it drops a part that it has announced, when the workers publish newer ones."""

    def _counted(self, own: Holdings) -> set[KeptStep]:
        del own
        return set()


def a_peer_is_ahead(kind: type[StepKeeper]) -> None:
    """Let a peer send this node's own part of a step before its workers publish that step and a newer one."""
    machine = StepKeeperMachine(kind)
    try:
        machine.first_round(2)
        machine.the_workers_start()
        machine.the_script_publishes(0)
        machine.receive_part(machine.steps()[0], 1)
        machine.the_round_ends()
        machine.a_round_begins(1, 2, 0)  # it restores that step
        machine.the_workers_start()
        machine.receive_part(KeptStep(machine.lineage, 1, 2), 0)
        machine.it_announces(is_settled=False)
        for _ in range(2):
            machine.the_script_publishes(0)
            machine.both_hold_the_same()
    finally:
        machine.teardown()


def test_a_part_that_was_announced_before_it_was_published_here_stays_and_a_keeper_that_drops_it_is_found() -> None:
    a_peer_is_ahead(StepKeeper)
    with pytest.raises(AssertionError):
        a_peer_is_ahead(_ForgetsAnnouncements)
