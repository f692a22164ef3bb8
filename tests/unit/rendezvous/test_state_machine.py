"""Any history of faults and wishes, over late watches and lost answers: the invariants hold, and the job gets on.

Two machines of the same rules, with an operator that owns the slots and without. After each history everybody is run
fairly: a round runs or the job has ended; then all workers finish, and everybody goes home.
"""

import sys

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from elasticjob_api.records import Slots
from elasticjob_api.world import State
from tests.unit.rendezvous.conftest import STATEFUL
from tests.unit.rendezvous.sim.job import SimJob
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.wire import Fault

whichever = st.integers(0, 3)
faults = st.one_of(st.none(), st.none(), st.sampled_from(Fault))
_MOST_NODES = 9


class JobMachine(RuleBasedStateMachine):
    """Rules common to both modes."""

    job: SimJob
    operator: str | None = None

    @initialize(
        least=st.integers(1, 2),
        wanted=st.integers(2, 4),
        restarts=st.integers(0, 2),
        running=st.sampled_from([True, True, False]),
    )
    def begin(self, least: int, wanted: int, restarts: int, *, running: bool) -> None:
        spec = Slots(
            min=least,
            max=4,
            desired=wanted,
            operator=self.operator,
            max_restarts=restarts,
            join_timeout_s=100.0,
            scale_up_delay_s=10.0,
            failure_grace_s=5.0,
            stop_grace_s=30.0,
        )
        self.job = SimJob(spec)
        if self.operator is None:
            for _ in range(wanted):
                self.job.spawn()
        if running:
            self.job.settle()

    def pick(self, index: int) -> SimNode | None:
        """One of the living, or nobody."""
        living = self.job.running()
        return living[index % len(living)] if living else None

    def disturb(self, *, happened: bool) -> None:
        """Each of these may cost a round, and the return of what it took away another."""
        self.job.disturbances += 2 * happened

    # -- turns -----------------------------------------------------------------------------------

    def give_turn(self, node: SimNode, fault: Fault | None) -> None:
        """One turn, in which the first call may go wrong."""
        node.etcd.faults = [fault]
        self.disturb(happened=fault is not None)
        node.turn()
        self.job.check_running()

    @rule(index=whichever, fault=faults)
    def turn(self, index: int, fault: Fault | None) -> None:
        if node := self.pick(index):
            self.give_turn(node, fault)

    @rule(index=whichever, revisions=st.sampled_from([1, 2, None]))
    def deliver(self, index: int, revisions: int | None) -> None:
        if (node := self.pick(index)) and node.mirror is not None:
            node.mirror.deliver(revisions)

    @rule(index=whichever)
    def stand(self, index: int) -> None:
        if node := self.pick(index):
            node.stand()

    @rule(revisions=st.sampled_from([1, 3, None]))
    def deliver_to_closers(self, revisions: int | None) -> None:
        for node in self.job.running():
            if node.closing_mirror is not None:
                node.closing_mirror.deliver(revisions)

    @rule(index=whichever, fault=faults)
    def close_a_round(self, index: int, fault: Fault | None) -> None:
        closers = [node for node in self.job.running() if node.closing is not None]
        if closers:
            closers[index % len(closers)].etcd.faults = [fault]
            self.disturb(happened=fault is not None)
            closers[index % len(closers)].close_a_round()

    @rule(index=whichever)
    def workers_have_stopped(self, index: int) -> None:
        if node := self.pick(index):
            node.workers.settle()

    @rule(passes=st.integers(1, 4), but=st.one_of(st.none(), whichever))
    def all_take_turns(self, passes: int, but: int | None) -> None:
        left_out = None if but is None else self.pick(but)
        for _ in range(passes):
            self.job.fair_pass(left_out)

    @rule(seconds=st.sampled_from([0.5, 2.0, 16.0, 45.0]))
    def time_passes(self, seconds: float) -> None:
        self.job.now_s += seconds

    # -- workers ---------------------------------------------------------------------------------

    @rule(index=whichever, exit_code=st.sampled_from([1, -9]), fault=faults)
    def a_worker_fails(self, index: int, exit_code: int, fault: Fault | None) -> None:
        if (node := self.pick(index)) and node.workers.fail(exit_code):
            self.disturb(happened=True)
            self.give_turn(node, fault)

    @rule(index=whichever)
    def all_workers_of_one_finish(self, index: int) -> None:
        if node := self.pick(index):
            self.job.succeed(node)

    @rule(index=whichever)
    def workers_get_stuck_in_the_kernel(self, index: int) -> None:
        if (node := self.pick(index)) and node.workers.alive:
            self.disturb(happened=not node.workers.wedged)
            node.workers.wedged = True

    # -- agents ----------------------------------------------------------------------------------

    @rule(index=whichever, fault=faults)
    def sigterm(self, index: int, fault: Fault | None) -> None:
        if node := self.pick(index):
            self.disturb(happened=not node.leave_requested)
            node.leave_requested = True
            self.give_turn(node, fault)

    @rule(index=whichever)
    def sigkill(self, index: int) -> None:
        if node := self.pick(index):
            node.kill()
            self.disturb(happened=True)

    @rule(index=whichever)
    def a_lease_runs_out(self, index: int) -> None:
        leases = [lease for node in self.job.nodes for lease in node.etcd.granted]
        leases = [lease for lease in leases if self.job.store.refreshes(lease) is not None]
        if leases:
            self.disturb(happened=self.job.store.expire(leases[index % len(leases)]))

    @rule(index=whichever)
    def a_keeper_notices(self, index: int) -> None:
        if node := self.pick(index):
            node.notice()

    @rule(index=whichever)
    def a_keeper_gives_up_though_the_lease_lives(self, index: int) -> None:
        if (node := self.pick(index)) and node.stay is not None:
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

    # -- wishes ----------------------------------------------------------------------------------

    @rule(desired=st.integers(1, 4))
    def scale(self, desired: int) -> None:
        if desired >= self.job.spec.min:
            self.disturb(happened=self.job.scale(desired))

    @rule()
    def restart(self) -> None:
        self.disturb(happened=self.job.restart())

    # -- the end ---------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "job") or sys.exception() is not None:
            return  # it has failed already
        job = self.job
        job.provide()
        job.settle()
        assert job.ended or job.is_running(), f"8: nothing runs: {job.world}"
        job.check_idempotent()
        if not job.ended:
            job.finish()
        job.settle()
        job.check_ends()
        if job.world is not None and job.world.state is not State.FAILED:
            assert job.world.round <= 1 + job.disturbances, f"7: {job.world.round} rounds"


class AgentsAlone(JobMachine):
    """A job of the command line: agents come and go, the oldest key owns its slot."""

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
