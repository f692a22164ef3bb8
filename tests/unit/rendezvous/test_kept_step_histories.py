"""Random histories of a job whose nodes keep steps: the rules of the state machines, and those of training.

After each history the invariants of both are true: `tests/unit/rendezvous/sim/keep.py` has those of the kept steps.
"""

import random

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from tests.unit.rendezvous.conftest import NIGHTLY, STATEFUL
from tests.unit.rendezvous.sim.keep import SimKeep
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.workers import ALIVE
from tests.unit.rendezvous.test_random_histories import play
from tests.unit.rendezvous.test_state_machine import AgentsAlone, JobMachine, WithAnOperator, whichever

pytestmark = pytest.mark.timeout(3600)

HISTORIES = 2000 if NIGHTLY else 20


def write_step(node: SimNode) -> None:
    """Let the workers of this node publish their part of the next step."""
    if node.workers.phase in ALIVE and node.workers.place is not None and isinstance(node.keep, SimKeep):
        node.keep.publish(node.workers.place)


def copy_parts(source: SimNode, target: SimNode) -> None:
    """Copy the newest parts of a node to another one; a node whose workers have stopped takes none."""
    if target.workers.phase in ALIVE and isinstance(source.keep, SimKeep) and isinstance(target.keep, SimKeep):
        source.keep.copy_to(target.keep)


class Training(JobMachine):
    """The rules of training, and of its keepers."""

    keep_copies = 1

    @rule(index=whichever)
    def workers_write_a_step(self, index: int) -> None:
        if node := self.pick(index):
            write_step(node)

    @rule()
    def all_workers_write_a_step(self) -> None:
        for node in self.job.running():
            write_step(node)

    @rule(index=whichever, other=whichever)
    def a_part_is_copied(self, index: int, other: int) -> None:
        if (source := self.pick(index)) and (target := self.pick(other)):
            copy_parts(source, target)

    @rule()
    def all_parts_are_copied(self) -> None:
        nodes = self.job.running()
        for source, target in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
            copy_parts(source, target)

    @rule(index=whichever)
    def a_fetch_is_slow(self, index: int) -> None:
        if (node := self.pick(index)) and isinstance(node.keep, SimKeep):
            node.keep.slow = True

    @rule()
    def slow_fetches_end(self) -> None:
        for node in self.job.nodes:
            if isinstance(node.keep, SimKeep):
                node.keep.slow = False

    def teardown(self) -> None:
        if hasattr(self, "job"):
            self.slow_fetches_end()
        super().teardown()


class TrainingAlone(Training, AgentsAlone):
    """A job of the command line."""


class TrainingWithAnOperator(Training, WithAnOperator):
    """A job of an operator."""


TestTrainingAlone = TrainingAlone.TestCase
TestTrainingAlone.settings = STATEFUL
TestTrainingWithAnOperator = TrainingWithAnOperator.TestCase
TestTrainingWithAnOperator.settings = STATEFUL


def test_an_idle_node_that_never_ran_a_round_holds_what_it_joined_with() -> None:
    """The leader uses its record without a `ready`. So it must not fetch the step of a round that it only sees."""
    machine = TrainingWithAnOperator()
    machine.begin(least=1, wanted=2, restarts=0, step=0, allowed=(1, 4), running=True)
    job, (member, idle) = machine.job, machine.job.nodes
    write_step(member)
    job.restart()
    job.settle()
    idle.leave_requested = True
    job.settle()
    newcomer = job.nodes[-1]
    assert job.state is not None
    assert job.state.members == (member.running_as,)
    assert job.state.restore, "the newcomer has seen a round that restores a step"
    member.kill()
    machine.a_lease_runs_out(index=0, afterwards=(0, 0))
    for _ in range(2):
        machine.turn(index=0, revisions=None, fault=None, afterwards=(1, 0))
        machine.campaign(index=0, befall=[])
    for _ in range(2):  # the newcomer leads, and closes the round before it writes `ready`
        machine.close_a_round(revisions=None, fault=None)
    assert newcomer.session is not None
    assert job.state.members == (newcomer.session.me.member,)
    assert not job.state.restore
    machine.teardown()


def test_a_node_that_joins_again_reports_the_part_that_its_workers_published_last() -> None:
    machine = TrainingWithAnOperator()
    machine.begin(least=1, wanted=2, restarts=0, step=0, allowed=(1, 4), running=True)
    job, (member, idle) = machine.job, machine.job.nodes
    before = member.running_as
    write_step(member)
    machine.a_lease_runs_out(index=0, afterwards=(0, 0))
    for _ in range(2):
        machine.turn(index=1, revisions=None, fault=None, afterwards=(1, 0))
        machine.campaign(index=1, befall=[])
    machine.close_a_round(revisions=None, fault=None)
    assert idle.leading is not None
    assert job.state is not None
    assert job.state.cause is Cause.NODE_LOST
    machine.a_keeper_notices(index=0)
    while member.session is None or member.session.me.member == before:
        machine.turn(index=0, revisions=None, fault=None, afterwards=(1, 0))
        machine.workers_have_stopped(index=0)
    machine.close_a_round(revisions=None, fault=None)  # the member has not written `ready` yet
    assert job.state.phase is RoundPhase.ACTIVE
    assert job.state.restore
    machine.teardown()


@pytest.mark.parametrize("batch", range(2))
@pytest.mark.parametrize("kind", [TrainingAlone, TrainingWithAnOperator])
def test_random_histories_keep_every_invariant(kind: type[Training], batch: int) -> None:
    assert issubclass(kind, RuleBasedStateMachine)
    restored = 0
    for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
        history: list[str] = []
        machine = kind()
        try:
            play(machine, random.Random(seed), history)
        except AssertionError as error:
            error.add_note("\n".join([f"seed {seed}:", *history]))
            raise
        assert machine.job.keep_checker is not None
        restored += machine.job.keep_checker.restored
    assert restored > HISTORIES // 4, f"only {restored} rounds restored a step: the histories show little"
