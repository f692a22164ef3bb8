"""Random histories of faults and spec changes, with late watches and lost answers: the invariants are true.

Two machines have the same rules, one with an operator that owns the slots and one without. After each history all
agents get fair turns, and a round runs or the job has ended. Then all workers finish, and all agents exit.
"""

import sys
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from elasticjob_api.records import SpecRecord, TombstoneReason
from elasticjob_api.rendezvous_state import RoundPhase
from tests.unit.rendezvous.conftest import STATEFUL
from tests.unit.rendezvous.sim.job import SimJob
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.store import SimStore
from tests.unit.rendezvous.sim.wire import Fault

pytestmark = pytest.mark.timeout(3600)  # for the nightly run; by default it takes seconds

whichever = st.integers(0, 3)
revision_counts = st.sampled_from([0, 1, 2, None])
"""How many revisions are delivered before a turn; None: all."""
faults = st.one_of(st.none(), st.none(), st.sampled_from(Fault))
afterwards = st.tuples(st.integers(0, 3), st.integers(0, 4))
"""The next turns: of the affected node, without new revisions; then fair passes of all other nodes."""
_MOST_NODES = 9


class JobMachine(RuleBasedStateMachine):
    """The rules of both modes."""

    job: SimJob
    operator: str | None = None
    store: SimStore | None = None
    """The store, if it is not a new one in memory."""
    keep_copies: int | None = None
    """At how many other nodes each part of a step has a copy, if nodes keep steps."""

    @initialize(
        least=st.integers(1, 2),
        wanted=st.integers(2, 4),
        restarts=st.integers(0, 2),
        step=st.sampled_from([0, 0, 1, 2]),
        allowed=st.one_of(st.just(()), st.just(()), st.sampled_from([(1, 2, 4), (2,), (2, 3), (1, 4), (3, 4)])),
        running=st.sampled_from([True, True, False]),
    )
    def begin(
        self, least: int, wanted: int, restarts: int, step: int, allowed: tuple[int, ...], *, running: bool
    ) -> None:
        spec = SpecRecord(
            min=least,
            max=4,
            desired=wanted,
            replica_step=0 if allowed else step,
            allowed_replicas=allowed,
            operator=self.operator,
            max_restarts=restarts,
            join_timeout_s=100.0,
            scale_up_delay_s=10.0,
            failure_grace_s=5.0,
            graceful_shutdown_s=30.0,
            keep_copies=self.keep_copies,
        )
        if not spec.sizes.largest(max(wanted, least)):
            spec = replace(spec, allowed_replicas=())  # the CRD refuses such a job, which could never run
        self.job = SimJob(spec, self.store)
        if self.operator is None:
            for _ in range(wanted):
                self.job.spawn()
        if running:
            self.job.settle()

    def pick(self, index: int) -> SimNode | None:
        """Return one of the live nodes, or None."""
        living = self.job.running()
        return living[index % len(living)] if living else None

    def disturb(self, *, happened: bool) -> None:
        """Count a move that may cost a round, and another round when the lost part returns."""
        self.job.disturbances += 2 * happened

    def follow(self, node: SimNode, afterwards: tuple[int, int], fault: Fault | None = None) -> None:
        """Play the next turns, with one node slower than the others."""
        turns, passes = afterwards
        node.etcd.faults = [fault]
        self.disturb(happened=fault is not None)
        for _ in range(turns):
            node.turn()
            self.job.check_running()
        for _ in range(passes):
            self.job.fair_pass(but=node)

    # -- turns -----------------------------------------------------------------------------------

    @rule(index=whichever, revisions=revision_counts, fault=faults, afterwards=afterwards)
    def turn(self, index: int, revisions: int | None, fault: Fault | None, afterwards: tuple[int, int]) -> None:
        if node := self.pick(index):
            if node.mirror is not None and revisions != 0:
                node.mirror.deliver(revisions)
            self.follow(node, afterwards, fault)

    @rule(revisions=revision_counts, fault=faults)
    def close_a_round(self, revisions: int | None, fault: Fault | None) -> None:
        for node in self.job.running():
            if node.leader_mirror is not None and revisions != 0:
                node.leader_mirror.deliver(revisions)
            if node.leading is not None:
                node.etcd.faults = [fault]
                self.disturb(happened=fault is not None)
                node.close_a_round()

    @rule(index=whichever, befall=st.lists(faults, max_size=2))
    def campaign(self, index: int, befall: list[Fault | None]) -> None:
        """Campaign: read the spec if there is no state yet, and try to write the leader key."""
        if node := self.pick(index):
            node.etcd.faults = list(befall)
            self.disturb(happened=any(befall))
            node.campaign()

    @rule(index=whichever)
    def workers_have_stopped(self, index: int) -> None:
        if node := self.pick(index):
            node.workers.settle()

    @rule(passes=st.integers(1, 4))
    def all_take_turns(self, passes: int) -> None:
        for _ in range(passes):
            self.job.fair_pass()

    @rule(seconds=st.sampled_from([0.5, 2.0, 16.0, 45.0]))
    def time_passes(self, seconds: float) -> None:
        self.job.now_s += seconds

    # -- workers ---------------------------------------------------------------------------------

    @rule(index=whichever, exit_code=st.sampled_from([1, -9]), fault=faults, afterwards=afterwards)
    def a_worker_fails(self, index: int, exit_code: int, fault: Fault | None, afterwards: tuple[int, int]) -> None:
        if (node := self.pick(index)) and node.workers.fail(exit_code):
            self.disturb(happened=True)
            self.follow(node, afterwards, fault)

    @rule(index=whichever, afterwards=afterwards)
    def all_workers_of_one_finish(self, index: int, afterwards: tuple[int, int]) -> None:
        if node := self.pick(index):
            self.job.succeed(node)
            self.follow(node, afterwards)

    @rule(index=whichever, afterwards=afterwards)
    def workers_get_stuck_in_the_kernel(self, index: int, afterwards: tuple[int, int]) -> None:
        if (node := self.pick(index)) and node.workers.alive:
            self.disturb(happened=not node.workers.wedged)
            node.workers.wedged = True
            self.follow(node, afterwards)

    # -- agents ----------------------------------------------------------------------------------

    @rule(index=whichever, fault=faults, afterwards=afterwards)
    def sigterm(self, index: int, fault: Fault | None, afterwards: tuple[int, int]) -> None:
        if node := self.pick(index):
            self.disturb(happened=not node.leave_requested)
            node.leave_requested = True
            self.follow(node, afterwards, fault)

    @rule(index=whichever)
    def sigkill(self, index: int) -> None:
        if node := self.pick(index):
            node.kill()
            self.disturb(happened=True)

    @rule(index=whichever, afterwards=afterwards)
    def a_lease_runs_out(self, index: int, afterwards: tuple[int, int]) -> None:
        node = self.job.nodes[index % len(self.job.nodes)] if self.job.nodes else None
        for lease in node.etcd.granted if node else ():
            self.disturb(happened=self.job.store.expire(lease))
        if node is not None and node.alive:
            self.follow(node, afterwards)

    @rule(indices=st.sets(whichever, min_size=2))
    def several_leases_run_out_at_once(self, indices: set[int]) -> None:
        for place in {index % len(self.job.nodes) for index in indices if self.job.nodes}:
            for lease in self.job.nodes[place].etcd.granted:
                self.disturb(happened=self.job.store.expire(lease))

    @rule(index=whichever)
    def sigkill_ends_its_link(self, index: int) -> None:
        if node := self.pick(index):
            node.kill()
            self.job.link_proves(node)
            self.disturb(happened=True)

    @rule(index=whichever)
    def a_link_seems_to_have_ended(self, index: int) -> None:
        if node := self.pick(index):
            self.job.link_proves(node)
            self.disturb(happened=True)

    @rule(index=whichever, fault=faults, afterwards=afterwards)
    def a_member_evicts_the_leader(self, index: int, fault: Fault | None, afterwards: tuple[int, int]) -> None:
        if node := self.pick(index):
            node.etcd.faults = [fault]
            self.disturb(happened=node.evict_the_leader())
            self.follow(node, afterwards)

    @rule(index=whichever)
    def a_keeper_notices(self, index: int) -> None:
        if node := self.pick(index):
            node.notice()

    @rule(index=whichever)
    def a_keeper_gives_up_though_the_lease_lives(self, index: int) -> None:
        if (node := self.pick(index)) and node.session is not None:
            node.lost = True

    @rule(index=whichever, fault=st.sampled_from(Fault))
    def a_second_call_goes_wrong(self, index: int, fault: Fault) -> None:
        if node := self.pick(index):
            node.etcd.faults = [None, fault]
            self.disturb(happened=True)
            node.turn()
            node.close_a_round()
            self.job.check_running()

    @rule(index=whichever)
    def a_late_call_lands(self, index: int) -> None:
        late = [node for node in self.job.nodes if node.etcd.late]
        if late:
            late[index % len(late)].etcd.land()
            self.job.check_running()

    @rule(index=whichever, reason=st.sampled_from([TombstoneReason.REFUSED, TombstoneReason.WEDGED]))
    def a_tombstone_is_written_and_its_author_ends(self, index: int, reason: TombstoneReason) -> None:
        if node := self.pick(index):
            self.disturb(happened=self.job.evict(node, reason))

    # -- the store -------------------------------------------------------------------------------

    @rule(afterwards=afterwards, index=whichever)
    def etcd_is_wiped(self, index: int, afterwards: tuple[int, int]) -> None:
        self.disturb(happened=self.job.wipe())
        if node := self.pick(index):
            self.follow(node, afterwards)

    @rule()
    def etcd_is_backed_up(self) -> None:
        self.job.back_up()

    @rule(afterwards=afterwards, index=whichever)
    def etcd_is_restored(self, index: int, afterwards: tuple[int, int]) -> None:
        self.disturb(happened=self.job.restore())
        if node := self.pick(index):
            self.follow(node, afterwards)

    # -- wishes ----------------------------------------------------------------------------------

    @rule(desired=st.integers(1, 4), index=whichever, afterwards=afterwards, fails=st.booleans())
    def scale(self, desired: int, index: int, afterwards: tuple[int, int], *, fails: bool) -> None:
        if self.job.spec.sizes.largest(desired):
            self.disturb(happened=self.job.scale(desired))
            self.follow_a_spec_change(index, afterwards, fails=fails)

    @rule(index=whichever, afterwards=afterwards, fails=st.booleans())
    def restart(self, index: int, afterwards: tuple[int, int], *, fails: bool) -> None:
        self.disturb(happened=self.job.restart())
        self.follow_a_spec_change(index, afterwards, fails=fails)

    @rule(seconds=st.sampled_from([10.0, 60.0]), index=whichever, afterwards=afterwards)
    def change_the_grace(self, seconds: float, index: int, afterwards: tuple[int, int]) -> None:
        if self.job.change(stop_grace_s=seconds) and (node := self.pick(index)):
            self.follow(node, afterwards)

    def follow_a_spec_change(self, index: int, afterwards: tuple[int, int], *, fails: bool) -> None:
        """Open a round while one node has not seen it, and then let its worker fail."""
        if node := self.pick(index):
            self.follow(node, afterwards)
            if fails and node.alive and node.workers.fail(1):
                self.disturb(happened=True)
                node.turn()

    # -- the end ---------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "job") or sys.exception() is not None:
            return  # the test has failed before
        job = self.job
        job.provide()
        job.settle()
        assert job.ended or job.is_running(), f"8: nothing runs: {job.state}"
        job.check_idempotent()
        job.check_tombstones_are_used()
        job.check_runtime_config_is_known()
        if not job.ended:
            job.finish()
        job.settle()
        job.check_ends()
        if job.state is not None and job.state.phase is not RoundPhase.FAILED and not job.checker.wipes:
            assert job.state.round <= 1 + job.disturbances, f"7: {job.state.round} rounds"


class AgentsAlone(JobMachine):
    """A job of the command line: agents join and leave, and the oldest key owns its slot."""

    @precondition(lambda self: len(self.job.nodes) < _MOST_NODES and not self.job.ended)
    @rule()
    def another_agent(self) -> None:
        self.job.spawn()
        self.disturb(happened=True)


class WithAnOperator(JobMachine):
    """The operator owns the slots, replaces lost pods, suspends and resumes."""

    operator = "operator-1"

    @rule()
    def operate(self) -> None:
        self.job.operate()

    @rule()
    def suspend(self) -> None:
        self.disturb(happened=self.job.suspend())

    @rule()
    def resume(self) -> None:
        self.disturb(happened=self.job.resume())


TestAgentsAlone = AgentsAlone.TestCase
TestAgentsAlone.settings = STATEFUL
TestWithAnOperator = WithAnOperator.TestCase
TestWithAnOperator.settings = STATEFUL
