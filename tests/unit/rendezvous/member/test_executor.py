"""The execution of steps, also if an answer is lost, refused, or slow."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from elasticjob_agent.rendezvous.leader.election import Election
from elasticjob_agent.rendezvous.member.executor import StepContext, StepExecutor, StepResult
from elasticjob_agent.rendezvous.member.join import JobRequirements
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.member_plan import Step, StepKind
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity, VersionedNode
from elasticjob_agent.tracing import Tracer
from elasticjob_api import rendezvous_state
from elasticjob_api.bootstrap import bootstrap_of
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import parse_view
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Put, Range, Txn, TxnResult
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.memory.store import InMemoryStore
from testing.scripted_keep import ScriptedKeep
from tests.unit.rendezvous.sim.wire import Fault, SimEtcd, now
from tests.unit.rendezvous.sim.workers import SimWorkers
from tests.unit.rendezvous.views import KEYS, a_node

ME = Member(0, "0000000a")
ACTIVE = RendezvousState(
    phase=RoundPhase.ACTIVE,
    round=1,
    nonce="n1",
    members=(ME,),
    master="10.0.0.1:20000",
    nprocs="2x1",
    roles="default*1",
)
FORMING = RendezvousState(phase=RoundPhase.FORMING, round=2, nonce="n2")


class SlowEtcd(SimEtcd):
    """An etcd in which something happens during a transaction."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    async def txn(self, txn: Txn) -> TxnResult:
        result = await super().txn(txn)
        self.meanwhile()
        return result


class _NobodyCloses:
    is_leader = False


class Node:
    """One node that has joined a store, and its steps."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.etcd = SlowEtcd(self.store)
        self.workers = SimWorkers(_forget)
        self.keep = ScriptedKeep()
        me = SessionIdentity(KEYS, ME, self.store.grant(6.0).id)
        node, spec = a_node(0, lease=me.lease), SpecRecord(min=1, max=1, desired=1)
        joined = self.store.txn(transactions.join(me, node, spec_revision=0))
        last = VersionedNode(node, joined.revision)
        wanted, keeper = JobRequirements(bootstrap_of(spec, 1), spec), cast("LeaseKeeper", None)
        self.session = Session(me=me, last=last, requirements=wanted, ctl=Range((), 1), keeper=keeper)
        drawn = iter("abcdefgh")
        self._acts = StepExecutor(
            etcd=self.etcd,
            workers=self.workers,
            random_hex=lambda: next(drawn),
            trace=Tracer(None, ""),
            election=cast("Election", _NobodyCloses()),
            keep=self.keep,
        )

    def put_state(self, value: RendezvousState) -> None:
        self.store.txn(Txn((), (Put(KEYS.rendezvous_state, rendezvous_state.encode_state(value)),)))

    def do(self, do: StepKind, state: RendezvousState, revision: int | None = None) -> StepResult:
        kv = self.store.get(KEYS.rendezvous_state)
        assert kv is not None
        context = StepContext(self.session, state, kv.mod_revision if revision is None else revision)
        return now(self._acts.execute(context, Step(do, group_rank=0)))

    def run_round_1(self) -> None:
        self.put_state(ACTIVE)
        self.do(StepKind.START, ACTIVE)

    def failures(self) -> dict[str, bool]:
        """Return the failures in etcd: name → late."""
        view = parse_view(KEYS, self.store.range(KEYS.everything).kvs)
        return {str(key): entry.failure.late for key, entry in view.failures.items()}


def _forget(_place: Assignment) -> None:
    """Ignore a start."""


def test_an_opening_with_a_lost_answer_is_tried_again_with_the_same_nonce() -> None:
    node = Node()
    node.run_round_1()
    node.workers.fail(1)
    kv = node.store.get(KEYS.rendezvous_state)
    assert kv is not None
    node.etcd.faults = [Fault.ANSWER_LOST]
    with pytest.raises(Unavailable):
        node.do(StepKind.OPEN_FAILED, ACTIVE)
    assert node.do(StepKind.OPEN_FAILED, ACTIVE, revision=kv.mod_revision) is StepResult.STATE_CHANGED
    opened = node.store.get(KEYS.rendezvous_state)
    assert opened is not None
    node.session.observe(rendezvous_state.decode_state(opened.value))
    assert node.session.failures_reported == 1


def test_a_step_that_could_not_be_restored_is_struck_in_the_state_that_opens_the_next_round() -> None:
    node = Node()
    restoring = replace(ACTIVE, run="0badcafe", history="1.m.120", restore="1.m.120.2")
    node.put_state(restoring)
    assert node.do(StepKind.OPEN_RESTORE_FAILED, restoring) is StepResult.DONE
    kv = node.store.get(KEYS.rendezvous_state)
    assert kv is not None
    opened = rendezvous_state.decode_state(kv.value)
    assert (opened.round, opened.cause, opened.history) == (2, Cause.RESTORE_FAILED, "1.n1.*,1.m.119")
    assert opened.message == "pod-0 could not restore step 1.m.120.2"
    assert node.failures() == {}


def test_a_restore_that_failed_in_an_earlier_round_opens_none() -> None:
    node = Node()
    node.put_state(FORMING)
    assert node.do(StepKind.OPEN_RESTORE_FAILED, ACTIVE, revision=1) is StepResult.STATE_CHANGED
    kv = node.store.get(KEYS.rendezvous_state)
    assert kv is not None
    assert rendezvous_state.decode_state(kv.value) == FORMING


def test_ready_carries_all_that_the_workers_published_before_they_stopped() -> None:
    node = Node()
    node.put_state(FORMING)
    node.keep.record = HoldingsRecord(port=7)
    node.keep.published = HoldingsRecord(port=7, steps={KeptStep(Lineage(1, "n1"), 120, 1): frozenset({0})})
    assert node.do(StepKind.REPORT_READY, FORMING) is StepResult.DONE
    view = parse_view(KEYS, node.store.range(KEYS.everything).kvs)
    assert (view.nodes[ME].record.ready, view.holdings) == (2, {ME: node.keep.published})


def test_an_opening_by_another_node_does_not_report_this_nodes_failures() -> None:
    node = Node()
    node.run_round_1()
    node.workers.fail(1)
    node.etcd.faults = [Fault.REQUEST_LOST]
    with pytest.raises(Unavailable):
        node.do(StepKind.OPEN_FAILED, ACTIVE)
    node.session.observe(FORMING)
    assert node.session.failures_reported == 0


def test_a_node_that_does_not_lead_logs_why_it_stops_its_workers(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.run_round_1()
    caplog.set_level("INFO")
    node.do(StepKind.STOP, replace(FORMING, cause=Cause.NODE_LOST, message="pod-3 is gone"))
    assert caplog.messages == ["stopping the workers: round 2 is forming: NodeLost pod-3 is gone"]


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (
            replace(FORMING, cause=Cause.WORKER_FAILED, message="Traceback\n[rank7] ValueError: no"),
            "stopping the workers: round 2 is forming: WorkerFailed",
        ),
        (
            replace(FORMING, phase=RoundPhase.FAILED, cause=Cause.MAX_RESTARTS, message="rank 7 exited with code 1"),
            "stopping the workers: round 2 is failed: MaxRestartsExceeded",
        ),
    ],
)
def test_a_node_does_not_log_a_failure_that_other_lines_have(
    state: RendezvousState, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    node.run_round_1()
    caplog.set_level("INFO")
    node.do(StepKind.STOP, state)
    assert caplog.messages == [line]


@pytest.mark.parametrize("do", [StepKind.OPEN_FAILED, StepKind.REPORT_LATE_FAILURES])
def test_a_failure_during_the_report_of_others_is_reported_later(do: StepKind) -> None:
    node = Node()
    node.run_round_1()
    node.workers.fail(1)
    node.etcd.meanwhile = lambda: node.workers.fail(-9)
    assert node.do(do, ACTIVE) is StepResult.DONE
    assert (len(node.workers.failures), node.session.failures_reported) == (2, 1)
    node.do(StepKind.REPORT_LATE_FAILURES, FORMING)
    assert node.failures() == {"1/0000.0": do is StepKind.REPORT_LATE_FAILURES, "1/0000.1": True}


def test_an_idle_node_keeps_the_port_that_a_leader_may_have_published() -> None:
    node = Node()
    node.put_state(FORMING)
    port = node.session.node.master_port
    assert node.do(StepKind.REPORT_READY, FORMING) is StepResult.DONE
    assert (node.session.node.ready, node.session.node.master_port) == (2, port)


@pytest.mark.parametrize("do", [StepKind.REPORT_READY, StepKind.REPORT_LEAVING])
def test_a_late_write_of_the_own_record_never_undoes_a_newer_one(do: StepKind) -> None:
    node = Node()
    node.run_round_1()
    node.put_state(FORMING)
    node.etcd.faults = [Fault.LATE]
    with pytest.raises(Unavailable):
        node.do(StepKind.REPORT_READY, FORMING)
    assert node.do(do, FORMING) is StepResult.DONE
    before = node.store.get(node.session.me.node_key)
    node.etcd.land()
    assert node.store.get(node.session.me.node_key) == before


def test_the_next_write_detects_a_write_of_the_own_record_with_a_lost_answer() -> None:
    node = Node()
    node.run_round_1()
    node.put_state(FORMING)
    node.etcd.faults = [Fault.ANSWER_LOST]
    with pytest.raises(Unavailable):
        node.do(StepKind.REPORT_READY, FORMING)
    assert node.session.node.ready == 0
    assert node.do(StepKind.REPORT_READY, FORMING) is StepResult.RECORD_CHANGED
    assert node.session.node.ready == 2
    assert node.do(StepKind.REPORT_LEAVING, FORMING) is StepResult.DONE


def test_a_node_that_ran_reserves_a_new_port() -> None:
    node = Node()
    node.run_round_1()
    node.put_state(FORMING)
    assert node.do(StepKind.REPORT_READY, FORMING) is StepResult.DONE
    assert node.session.node.master_port == node.workers.port


def test_a_round_counts_as_started_before_its_first_process_exists() -> None:
    node = Node()
    node.put_state(ACTIVE)
    node.workers.phase = node.workers.phase.RUNNING
    with pytest.raises(AssertionError, match="beside workers"):
        node.do(StepKind.START, ACTIVE)
    assert node.session.started == (1, "n1")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"nprocs": "2x"}, id="no number of workers"),
        pytest.param({"nprocs": ""}, id="no workers of this node"),
        pytest.param({"roles": "default*2"}, id="another number of roles"),
        pytest.param({"master": ""}, id="no master"),
        pytest.param({"master": "10.0.0.1:x"}, id="no port"),
    ],
)
def test_a_round_with_an_unreadable_layout_is_not_started(
    fields: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    node, spoilt = Node(), replace(ACTIVE, **fields)  # type: ignore[arg-type]  # all of these fields are texts
    node.put_state(spoilt)
    assert node.do(StepKind.START, spoilt) is StepResult.STATE_UNREADABLE
    assert (node.session.started, node.workers.place) == (None, None)
    assert "ignored the state of round 1" in caplog.text


@pytest.mark.parametrize(
    ("spoil", "result"),
    [
        pytest.param(lambda _: None, StepResult.DONE, id="nothing changed"),
        pytest.param(lambda n: n.put_state(FORMING), StepResult.STATE_CHANGED, id="the state changed"),
        pytest.param(lambda n: n.store.expire(n.session.me.lease), StepResult.KEY_LOST, id="the lease ran out"),
    ],
)
def test_a_refusal_shows_which_compare_failed(spoil: Callable[[Node], object], result: StepResult) -> None:
    node = Node()
    node.run_round_1()
    kv = node.store.get(KEYS.rendezvous_state)
    assert kv is not None
    spoil(node)
    assert node.do(StepKind.REPORT_DONE, ACTIVE, revision=kv.mod_revision) is result
    assert node.session.done_round == (1 if result is StepResult.DONE else 0)
