"""Random histories of faults over the rules of Keep: the guarantees are true, and after the last fault all is safe.

The machine calls the rules of the product only. `sim/` has the environment: nodes with volumes, late views, leases and
leaders. Answers are late, lost or in another order.
"""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from tests.unit.agent.keep.sim.job import KeepJob
from tests.unit.agent.keep.sim.node import SimNode
from tests.unit.rendezvous.conftest import STATEFUL

pytestmark = pytest.mark.timeout(3600)  # for the nightly run; by default it takes seconds

OTHER_RUN = PersistedStep("other", KeptStep(Lineage(90, "other"), 1, 4))
"""A step of an earlier run. Its round is higher than all rounds of this one."""
BEFORE = tuple(PersistedStep("before", KeptStep(Lineage(70, "before"), number, 4)) for number in (1, 5))
"""Steps of a run before, which the earlier run has not restored."""

indices = st.integers(0, 3)
choices = st.integers(0, 7)
leaders = st.sampled_from([0, 0, 0, 1])
rooms = st.sampled_from([True, True, True, False])


class KeepMachine(RuleBasedStateMachine):
    """One job with Keep, and everything that may happen to it."""

    job: KeepJob

    @initialize(
        nodes=st.integers(1, 4),
        layout=st.sampled_from(["sharded", "sharded", "copies", "rank 0"]),
        copies=st.sampled_from([1, 1, 2]),
        late=st.sampled_from([0, 0, 1]),
        other_runs=st.sampled_from([(), (), (OTHER_RUN,), (*BEFORE, OTHER_RUN)]),
        persist_keep=st.integers(1, 3),
        steps=st.integers(0, 3),
    )
    def begin(self, *, late: int, steps: int, nodes: int, **options: Any) -> None:
        self.job = KeepJob(nodes, late=min(late, nodes - 1), highest=6, **options)
        for _ in range(steps):
            self.job.train()

    def node(self, index: int) -> SimNode:
        """Return one of the nodes."""
        return self.job.nodes[index % len(self.job.nodes)]

    # -- progress --------------------------------------------------------------------------------------

    @rule(index=indices, choice=choices)
    def one_node_goes_on(self, index: int, choice: int) -> None:
        node = self.node(index)
        self.job.see(node)
        self.job.report_ready(node)
        self.job.fetch(node, choice)
        self.job.start(node)

    @rule()
    def all_reach_the_next_round(self) -> None:
        self.job.lead()
        for _ in range(2):
            for node in self.job.nodes:
                self.job.see(node)
                self.job.report_ready(node)
            self.job.close()

    @rule()
    def all_restore(self) -> None:
        for node in self.job.nodes:
            self.job.see(node)
            for choice in range(4):
                self.job.fetch(node, choice)
            self.job.start(node)

    @rule(skipped=st.none() | indices, published=st.integers(0, 2))
    def all_train(self, skipped: int | None, published: int) -> None:
        self.job.train()
        for index, node in enumerate(self.job.nodes):
            for _ in range(published if index != skipped else 0):
                self.job.publish(node)

    @rule(index=indices, has_room=rooms)
    def one_node_publishes(self, index: int, *, has_room: bool) -> None:
        self.job.publish(self.node(index), has_room=has_room)

    @rule(index=indices)
    def one_node_sees_the_state(self, index: int) -> None:
        self.job.see(self.node(index))

    @rule(index=indices)
    def one_node_is_ready(self, index: int) -> None:
        self.job.report_ready(self.node(index))

    @rule(index=indices, choice=choices)
    def one_node_fetches(self, index: int, choice: int) -> None:
        self.job.fetch(self.node(index), choice)

    @rule(index=indices)
    def one_node_starts(self, index: int) -> None:
        self.job.start(self.node(index))

    @rule()
    def the_leader_closes(self) -> None:
        self.job.close()

    @rule()
    def the_leader_opens(self) -> None:
        self.job.lead()

    # -- replicas and commits --------------------------------------------------------------------------

    @rule(skipped=st.none() | indices)
    def all_replicate(self, skipped: int | None) -> None:
        for index, node in enumerate(self.job.nodes):
            for choice in range(4 if index != skipped else 0):
                self.job.replicate(node, choice)

    @rule(index=indices, choice=choices, has_room=rooms)
    def one_part_is_offered(self, index: int, choice: int, *, has_room: bool) -> None:
        self.job.replicate(self.node(index), choice, has_room=has_room)

    @rule(skipped=st.none() | indices, leader=leaders)
    def all_announce(self, skipped: int | None, leader: int) -> None:
        for index, node in enumerate(self.job.nodes):
            if index != skipped:
                self.job.announce(node, leader)
        self.job.decide(leader)

    @rule(index=indices, leader=leaders)
    def one_node_announces(self, index: int, leader: int) -> None:
        self.job.announce(self.node(index), leader)

    @rule(leader=leaders)
    def a_leader_answers(self, leader: int) -> None:
        self.job.decide(leader)

    @rule(index=indices, choice=choices)
    def an_answer_arrives(self, index: int, choice: int) -> None:
        self.job.receive(self.node(index), choice)

    @rule(skipped=st.none() | indices)
    def all_answers_arrive(self, skipped: int | None) -> None:
        for index, node in enumerate(self.job.nodes):
            while index != skipped and self.job.receive(node):
                pass

    @rule(index=indices)
    def an_answer_is_lost(self, index: int) -> None:
        self.node(index).points[:1] = []

    @rule(index=indices)
    def a_committed_step_is_persisted(self, index: int) -> None:
        self.job.persist(self.node(index))

    @rule(index=indices)
    def a_node_lists_the_directory(self, index: int) -> None:
        self.job.show_directory(self.node(index))
        self.job.list_directory(self.node(index))

    # -- faults ----------------------------------------------------------------------------------------

    @rule(index=indices)
    def a_worker_fails(self, index: int) -> None:
        self.job.fail_worker(self.node(index))

    @rule(index=indices)
    def the_directory_does_not_answer(self, index: int) -> None:
        self.job.hide_directory(self.node(index))

    @rule(choice=st.sampled_from([0, 0, 1, 2]))
    def a_persisted_step_is_removed(self, choice: int) -> None:
        self.job.damage_directory(choice)

    @rule(index=indices)
    def a_node_crashes(self, index: int) -> None:
        self.job.crash(self.node(index))

    @rule(index=indices)
    def a_lease_ends(self, index: int) -> None:
        self.job.expire(self.node(index))

    @rule(index=indices)
    def a_pod_is_replaced(self, index: int) -> None:
        self.job.expire(self.node(index))
        self.job.replace_pod(self.node(index))
        self.job.join(self.node(index))

    @rule(index=indices)
    def a_node_joins(self, index: int) -> None:
        self.job.join(self.node(index))

    @rule(index=indices)
    def a_node_is_cut_off(self, index: int) -> None:
        self.job.cut_off(self.node(index))

    @rule(index=indices)
    def a_node_is_reachable_again(self, index: int) -> None:
        self.job.heal(self.node(index))

    @rule(index=indices)
    def an_agent_restarts(self, index: int) -> None:
        self.job.restart_agent(self.node(index))

    @rule(index=indices)
    def an_agent_restarts_without_a_keeper(self, index: int) -> None:
        self.job.break_keeper(self.node(index))

    @rule(index=indices)
    def a_keeper_opens_its_volume(self, index: int) -> None:
        self.job.mend_keeper(self.node(index))

    @rule(index=indices)
    def a_node_leaves(self, index: int) -> None:
        self.job.leave(self.node(index))

    @rule(index=indices)
    def a_node_departs(self, index: int) -> None:
        self.job.depart(self.node(index))

    @rule(index=indices, choice=choices)
    def a_fetch_fails_without_a_cause(self, index: int, choice: int) -> None:
        self.job.fetch(self.node(index), choice, is_spurious=True)

    @rule()
    def another_node_leads(self) -> None:
        self.job.change_leader()

    @rule(wanted=st.integers(1, 4))
    def another_size_is_wanted(self, wanted: int) -> None:
        self.job.wanted = min(wanted, len(self.job.nodes))

    @rule(back_to=st.none() | st.integers(-4, -1))
    def etcd_is_wiped_or_restored(self, back_to: int | None) -> None:
        self.job.wipe(back_to)

    @rule(skipped=st.none() | indices)
    def agents_come_back(self, skipped: int | None) -> None:
        for index, node in enumerate(self.job.nodes):
            if index != skipped:
                self.job.come_back(node)
        self.job.end_quiet_time()

    def teardown(self) -> None:
        """Check that training goes on after the last fault, and that its newest step becomes safe."""
        if hasattr(self, "job"):
            self.job.settle()


TestKeep = KeepMachine.TestCase
TestKeep.settings = STATEFUL
