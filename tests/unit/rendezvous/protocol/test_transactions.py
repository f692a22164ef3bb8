"""Every transaction against a store: its effect, and each of its compares alone."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.transactions import Push, SessionIdentity, VersionedNode
from elasticjob_api import records, rendezvous_state
from elasticjob_api.holdings import HoldingsRecord, decode_holdings
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import NodeReport, NodeSamples, SpecRecord, Tombstone, TombstoneReason, WorkerFailure
from elasticjob_api.rendezvous_state import Leader, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.runtime_config import runtime_config_of
from elasticjob_etcd.interface import Delete, Put, Txn, reads_of
from elasticjob_etcd.memory.store import InMemoryStore
from tests.unit.rendezvous.views import KEYS, a_node

ME = Member(1, "0000000a")
ACTIVE = RendezvousState(phase=RoundPhase.ACTIVE, round=1, nonce="n1", members=(ME,))
FORMING = RendezvousState(phase=RoundPhase.FORMING, round=2, nonce="n2")
SPEC = SpecRecord(min=1, max=2, desired=2)


@dataclass
class Scene:
    """A store in which one node has joined, leads, and runs round 1."""

    store: InMemoryStore
    me: SessionIdentity

    @classmethod
    def make(cls) -> "Scene":
        store = InMemoryStore()
        scene = cls(store, SessionIdentity(KEYS, ME, store.grant(6.0).id))
        store.txn(transactions.create_spec(KEYS, SPEC))
        store.txn(transactions.join(scene.me, scene.node(), spec_revision=scene.revision_of(KEYS.spec)))
        scene.put(KEYS.rendezvous_state, rendezvous_state.encode_state(ACTIVE))
        store.txn(transactions.campaign(scene.me, "10.0.0.1:7"))
        return scene

    def node(self, **changes: object) -> records.NodeRecord:
        return a_node(1, lease=self.me.lease, **changes)

    def last(self) -> VersionedNode:
        """Return the own record as it is in the store."""
        return VersionedNode(self.node(), self.revision_of(self.me.node_key))

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        self.store.txn(Txn((), (Put(key, value, lease),)))

    def delete(self, key: str) -> None:
        self.store.txn(Txn((), (Delete(key),)))

    def revision_of(self, key: str) -> int:
        kv = self.store.get(key)
        return kv.mod_revision if kv else 0

    def view(self) -> RendezvousView:
        return parse_view(KEYS, self.store.range(KEYS.everything).kvs)


FAILURES = {FailureKey(1, ME.slot, 0): WorkerFailure(incarnation=ME.incarnation, rank=0, exit_code=1)}
REPORT = NodeReport(pod="pod-1", pod_uid="u", round=1, group_rank=0)
SAMPLES = NodeSamples(round=1, memory_bytes=(7,))
HOLDINGS = HoldingsRecord(port=7, steps={KeptStep(Lineage(1, "n1"), 120, 2): frozenset({1})})
Make = Callable[[Scene], Txn]

TXNS: dict[str, Make] = {
    "ready": lambda s: transactions.ready(s.me, s.last(), s.node(ready=2)),
    "ready with holdings": lambda s: transactions.ready(s.me, s.last(), s.node(ready=2), holdings=HOLDINGS),
    "open_round": lambda s: transactions.open_round(s.me, s.revision_of(KEYS.rendezvous_state), FORMING, FAILURES),
    "open_leaving": lambda s: transactions.open_leaving(
        s.me, s.revision_of(KEYS.rendezvous_state), FORMING, s.last(), s.node(leaving=True), is_leader=True
    ),
    "late_failures": lambda s: transactions.late_failures(s.me, FAILURES),
    "leaving": lambda s: transactions.leaving(s.me, s.last(), s.node(leaving=True), is_leader=True),
    "done": lambda s: transactions.done(s.me, s.revision_of(KEYS.rendezvous_state), 1),
    "report": lambda s: transactions.report(s.me, REPORT, SAMPLES),
    "samples": lambda s: transactions.samples(s.me, SAMPLES, s.revision_of(s.me.report_key)),
    "write_state": lambda s: transactions.write_state(
        s.me,
        observed_revision=s.revision_of(KEYS.rendezvous_state),
        spec_revision=s.revision_of(KEYS.spec),
        next_state=FORMING,
    ),
    "tell": lambda s: transactions.push(s.me, s.revision_of(KEYS.spec), Push(runtime_config_of(SPEC), b"k" * 32)),
    "evict": lambda s: transactions.evict(
        s.me, s.revision_of(KEYS.rendezvous_state), Member(0, "b" * 8), Tombstone(TombstoneReason.WEDGED)
    ),
}
OF_THE_STATE = ["open_round", "open_leaving", "done", "write_state", "evict"]
OF_THE_NODE = ["ready", "ready with holdings", "open_leaving", "leaving"]
OF_THE_CLOSER = ["write_state", "tell", "evict"]


def refused(make: Make, spoil: Callable[[Scene], None]) -> bool:
    """Return whether the transaction, planned before `spoil`, then changes nothing at all."""
    scene = Scene.make()
    txn = make(scene)
    spoil(scene)
    before = scene.store.range("")
    result = scene.store.txn(txn)
    return not result.succeeded and scene.store.range("") == before


@pytest.mark.parametrize("name", TXNS)
def test_it_succeeds_when_nothing_has_changed(name: str) -> None:
    scene = Scene.make()
    assert scene.store.txn(TXNS[name](scene)).succeeded


@pytest.mark.parametrize("name", TXNS)
def test_it_is_refused_once_the_own_key_is_gone(name: str) -> None:
    assert refused(TXNS[name], lambda scene: scene.delete(scene.me.node_key))


@pytest.mark.parametrize("name", TXNS)
def test_it_is_refused_once_the_own_key_is_under_another_lease(name: str) -> None:
    def spoil(scene: Scene) -> None:
        scene.put(scene.me.node_key, records.encode(scene.node()), scene.store.grant(6.0).id)

    assert refused(TXNS[name], spoil)


@pytest.mark.parametrize("name", OF_THE_STATE)
def test_it_is_refused_once_the_state_has_changed(name: str) -> None:
    assert refused(TXNS[name], lambda scene: scene.put(KEYS.rendezvous_state, rendezvous_state.encode_state(ACTIVE)))


@pytest.mark.parametrize("name", OF_THE_STATE)
def test_it_is_refused_once_the_state_is_gone(name: str) -> None:
    assert refused(TXNS[name], lambda scene: scene.delete(KEYS.rendezvous_state))


@pytest.mark.parametrize("name", sorted(set(TXNS) - set(OF_THE_STATE)))
def test_it_succeeds_in_another_state_too(name: str) -> None:
    assert not refused(
        TXNS[name], lambda scene: scene.put(KEYS.rendezvous_state, rendezvous_state.encode_state(FORMING))
    )


@pytest.mark.parametrize("name", OF_THE_CLOSER)
def test_it_is_refused_once_another_agent_leads(name: str) -> None:
    def spoil(scene: Scene) -> None:
        scene.put(KEYS.leader, rendezvous_state.encode_leader(Leader(ME)), scene.store.grant(6.0).id)

    assert refused(TXNS[name], spoil)
    assert refused(TXNS[name], lambda scene: scene.delete(KEYS.leader))


@pytest.mark.parametrize("name", OF_THE_NODE)
def test_it_is_refused_after_another_write_of_the_own_record(name: str) -> None:
    def spoil(scene: Scene) -> None:
        scene.put(scene.me.node_key, records.encode(scene.node(ready=9)), scene.me.lease)

    assert refused(TXNS[name], spoil)


@pytest.mark.parametrize("name", OF_THE_NODE)
def test_a_refusal_returns_the_own_record(name: str) -> None:
    scene = Scene.make()
    txn = TXNS[name](scene)
    scene.put(scene.me.node_key, records.encode(scene.node(ready=9)), scene.me.lease)
    assert scene.me.node_key in {kv.key for kv in reads_of(scene.store.txn(txn))}


@pytest.mark.parametrize("name", ["write_state", "tell"])
def test_a_write_that_depends_on_the_spec_is_refused_once_it_has_changed(name: str) -> None:
    assert refused(TXNS[name], lambda scene: scene.put(KEYS.spec, records.encode(SPEC)))


@pytest.mark.parametrize("name", TXNS)
def test_a_refusal_returns_the_state_and_the_leader(name: str) -> None:
    scene = Scene.make()
    txn = TXNS[name](scene)
    scene.put(KEYS.rendezvous_state, rendezvous_state.encode_state(FORMING))
    scene.delete(scene.me.node_key)
    assert [kv.key for kv in reads_of(scene.store.txn(txn))] == [KEYS.leader, KEYS.rendezvous_state]


# The effect of each one.


def test_join_reads_the_watched_prefix_and_all_that_the_choice_of_a_slot_needs() -> None:
    scene = Scene.make()
    newcomer = SessionIdentity(KEYS, Member(2, "0000000c"), scene.store.grant(6.0).id)
    result = scene.store.txn(transactions.join(newcomer, a_node(2), spec_revision=scene.revision_of(KEYS.spec)))
    read = {kv.key for kv in reads_of(result)}
    assert result.succeeded
    assert read == {KEYS.leader, KEYS.rendezvous_state, scene.me.node_key, newcomer.node_key}


def test_join_with_a_given_slot_reads_no_nodes() -> None:
    scene = Scene.make()
    newcomer = SessionIdentity(KEYS, Member(2, "0000000c"), scene.store.grant(6.0).id)
    spec = scene.revision_of(KEYS.spec)
    result = scene.store.txn(transactions.join(newcomer, a_node(2), spec_revision=spec, slot_is_given=True))
    assert {kv.key for kv in reads_of(result)} == {KEYS.leader, KEYS.rendezvous_state}


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(KEYS.node(2, "0000000c"), id="the incarnation exists"),
        pytest.param(KEYS.tombstone(2, "0000000c"), id="the incarnation existed before"),
        pytest.param(KEYS.spec, id="the spec has changed since it was read"),
    ],
)
def test_join_is_refused_and_leaves_nothing_behind(key: str) -> None:
    scene = Scene.make()
    newcomer = SessionIdentity(KEYS, Member(2, "0000000c"), scene.store.grant(6.0).id)
    txn = transactions.join(newcomer, a_node(2), spec_revision=scene.revision_of(KEYS.spec))
    scene.put(key, b"")
    assert not scene.store.txn(txn).succeeded
    assert key == newcomer.node_key or not scene.revision_of(newcomer.node_key)


@pytest.mark.parametrize(
    ("spoil", "succeeds"),
    [
        pytest.param(lambda _: None, True, id="the key is gone and nothing else has changed"),
        pytest.param(
            lambda s: s.put(KEYS.rendezvous_state, rendezvous_state.encode_state(FORMING)),
            False,
            id="the state changed",
        ),
        pytest.param(lambda s: s.put(KEYS.tombstone(1, ME.incarnation), b""), False, id="it has a tombstone"),
        pytest.param(lambda s: s.put(s.me.node_key, b""), False, id="the key exists again"),
    ],
)
def test_put_back_succeeds_only_if_nothing_else_has_changed(spoil: Callable[[Scene], None], succeeds: bool) -> None:  # noqa: FBT001 -- a column of the table
    scene = Scene.make()
    revision = scene.revision_of(KEYS.rendezvous_state)
    scene.store.expire(scene.me.lease)
    spoil(scene)
    again = SessionIdentity(KEYS, ME, scene.store.grant(6.0).id)
    assert scene.store.txn(transactions.put_back(again, a_node(1, lease=again.lease), revision)).succeeded is succeeds


WITH_HOLDINGS: dict[str, Callable[[Scene, HoldingsRecord | None], Txn]] = {
    "join": lambda s, held: transactions.join(
        s.me, s.node(), spec_revision=s.revision_of(KEYS.spec), slot_is_given=True, holdings=held
    ),
    "put_back": lambda s, held: transactions.put_back(
        s.me, s.node(), s.revision_of(KEYS.rendezvous_state), holdings=held
    ),
    "ready": lambda s, held: transactions.ready(s.me, s.last(), s.node(ready=2), holdings=held),
}


@pytest.mark.parametrize("name", WITH_HOLDINGS)
def test_holdings_are_in_the_revision_of_the_node_record_and_under_its_lease(name: str) -> None:
    scene = Scene.make()
    if name != "ready":
        scene.delete(scene.me.node_key)
    assert scene.store.txn(WITH_HOLDINGS[name](scene, HOLDINGS)).succeeded
    held, node = scene.store.get(KEYS.holdings(ME.slot, ME.incarnation)), scene.store.get(scene.me.node_key)
    assert held is not None
    assert node is not None
    assert decode_holdings(held.value) == HOLDINGS
    assert (held.lease, held.mod_revision) == (scene.me.lease, node.mod_revision)


@pytest.mark.parametrize("name", WITH_HOLDINGS)
def test_a_node_without_a_keeper_writes_its_node_record_alone(name: str) -> None:
    scene = Scene.make()
    puts = [op.key for op in WITH_HOLDINGS[name](scene, None).success if isinstance(op, Put)]
    assert puts == [scene.me.node_key]


@pytest.mark.parametrize("name", WITH_HOLDINGS)
def test_holdings_change_neither_what_is_compared_nor_what_is_read(name: str) -> None:
    scene = Scene.make()
    plain, kept = WITH_HOLDINGS[name](scene, None), WITH_HOLDINGS[name](scene, HOLDINGS)
    assert (plain.compares, plain.failure) == (kept.compares, kept.failure)
    assert [op for op in plain.success if not isinstance(op, Put)] == [
        op for op in kept.success if not isinstance(op, Put)
    ]


def test_all_keys_of_one_session_vanish_with_its_lease_in_one_revision() -> None:
    scene = Scene.make()
    scene.store.txn(TXNS["report"](scene))
    scene.store.txn(TXNS["ready with holdings"](scene))
    before = scene.store.revision
    scene.store.revoke(scene.me.lease)
    gone = {event.kv.key: event.kv.mod_revision for event in scene.store.events_since(before + 1, KEYS.everything)}
    reported = (KEYS.report(ME.slot, ME.incarnation), KEYS.samples(ME.slot, ME.incarnation))
    keys = {scene.me.node_key, KEYS.leader, KEYS.holdings(ME.slot, ME.incarnation), *reported}
    assert gone == dict.fromkeys(keys, before + 1)


def test_open_round_writes_the_state_and_the_failures_in_one_revision() -> None:
    scene = Scene.make()
    scene.store.txn(TXNS["open_round"](scene))
    view = scene.view()
    assert view.state == FORMING
    assert [(str(key), f.revision) for key, f in view.failures.items()] == [("1/0001.0", view.state_revision)]


@pytest.mark.parametrize("name", ["open_leaving", "leaving"])
def test_a_leaving_leader_resigns_in_the_same_revision(name: str) -> None:
    scene = Scene.make()
    scene.store.txn(TXNS[name](scene))
    assert scene.view().nodes[ME].record.leaving
    assert scene.store.get(KEYS.leader) is None


@pytest.mark.parametrize("name", ["open_leaving", "leaving"])
def test_a_leaving_member_does_not_touch_the_leader_key(name: str) -> None:
    scene = Scene.make()
    node, revision = scene.node(leaving=True), scene.revision_of(KEYS.rendezvous_state)
    make = {
        "open_leaving": transactions.open_leaving(scene.me, revision, FORMING, scene.last(), node, is_leader=False),
        "leaving": transactions.leaving(scene.me, scene.last(), node, is_leader=False),
    }
    assert scene.store.txn(make[name]).succeeded
    assert scene.store.get(KEYS.leader) is not None


def test_done_is_written_for_the_incarnation() -> None:
    scene = Scene.make()
    scene.store.txn(TXNS["done"](scene))
    assert scene.view().completions == {(1, ME.slot): ME}


def test_the_first_candidate_leads() -> None:
    scene = Scene.make()
    assert not scene.store.txn(transactions.campaign(scene.me, "")).succeeded
    scene.delete(KEYS.leader)
    assert scene.store.txn(transactions.campaign(scene.me, "h:1")).succeeded
    kv = scene.store.get(KEYS.leader)
    assert kv is not None
    assert (rendezvous_state.decode_leader(kv.value), kv.lease) == (Leader(ME, "h:1"), scene.me.lease)


def test_no_agent_without_a_live_key_can_campaign() -> None:
    scene = Scene.make()
    scene.store.expire(scene.me.lease)
    assert not scene.store.txn(transactions.campaign(scene.me, "")).succeeded


def test_active_is_written_with_its_members_and_only_forming_leaves_them() -> None:
    scene = Scene.make()
    revision, spec = scene.revision_of(KEYS.rendezvous_state), scene.revision_of(KEYS.spec)
    scene.store.txn(
        transactions.write_state(scene.me, observed_revision=revision, spec_revision=spec, next_state=ACTIVE)
    )
    assert scene.view().membership == Membership(1, (ME,))
    assert scene.view().membership_revision == scene.view().state_revision
    before = scene.view().membership_revision
    scene.store.txn(TXNS["write_state"](scene))
    assert scene.view().membership_revision == before


def test_closing_a_round_deletes_the_given_records_and_no_others() -> None:
    scene = Scene.make()
    for round_ in (1, 11, 2):
        scene.put(KEYS.completion(round_, 0), records.encode(records.Completion("b" * 8)))
    garbage = [KEYS.completions(1), KEYS.failures(1)]
    revision, spec = scene.revision_of(KEYS.rendezvous_state), scene.revision_of(KEYS.spec)
    txn = transactions.write_state(
        scene.me, observed_revision=revision, spec_revision=spec, next_state=ACTIVE, garbage=garbage
    )
    assert scene.store.txn(txn).succeeded
    assert {round_ for round_, _ in scene.view().completions} == {11, 2}


def test_the_first_tombstone_remains() -> None:
    scene = Scene.make()
    other, revision = Member(0, "b" * 8), scene.revision_of(KEYS.rendezvous_state)
    assert scene.store.txn(transactions.evict(scene.me, revision, other, Tombstone(TombstoneReason.WEDGED))).succeeded
    again = scene.store.txn(transactions.evict(scene.me, revision, other, Tombstone(TombstoneReason.REFUSED)))
    assert (again.succeeded, [kv.key for kv in again.reads[0]]) == (False, [KEYS.tombstone(0, "b" * 8)])
    assert scene.view().tombstones[other] == Tombstone(TombstoneReason.WEDGED)


def test_the_own_tombstone_is_left_unless_another_exists() -> None:
    scene = Scene.make()
    assert scene.store.txn(transactions.write_left_tombstone(scene.me)).succeeded
    assert scene.view().tombstones == {ME: Tombstone(TombstoneReason.LEFT)}
    assert not scene.store.txn(transactions.write_left_tombstone(scene.me)).succeeded


def test_an_agent_without_its_key_cannot_write_its_own_tombstone() -> None:
    assert refused(lambda s: transactions.write_left_tombstone(s.me), lambda s: s.delete(s.me.node_key))


def test_only_the_first_agent_writes_the_spec() -> None:
    scene = Scene.make()
    assert not scene.store.txn(transactions.create_spec(KEYS, SpecRecord(min=9, max=9, desired=9))).succeeded
    assert scene.view().spec == SPEC


def test_a_report_has_the_lease_of_its_agent() -> None:
    scene = Scene.make()
    scene.store.txn(TXNS["report"](scene))
    kv = scene.store.get(KEYS.report(ME.slot, ME.incarnation))
    assert kv is not None
    assert kv.lease == scene.me.lease
    assert records.decode(NodeReport, kv.value).workers == ()


def test_a_report_and_its_samples_are_written_in_one_revision() -> None:
    scene = Scene.make()
    revision = scene.store.txn(TXNS["report"](scene)).revision
    assert [scene.revision_of(key) for key in (scene.me.report_key, f"{scene.me.report_key}/samples")] == [revision] * 2


def test_samples_alone_leave_the_report_as_it_was() -> None:
    scene = Scene.make()
    scene.store.txn(TXNS["report"](scene))
    revision = scene.revision_of(scene.me.report_key)
    assert scene.store.txn(TXNS["samples"](scene)).succeeded
    kv = scene.store.get(KEYS.samples(ME.slot, ME.incarnation))
    assert kv is not None
    assert (kv.lease, records.decode(NodeSamples, kv.value)) == (scene.me.lease, SAMPLES)
    assert scene.revision_of(scene.me.report_key) == revision


@pytest.mark.parametrize("other", [True, False], ids=["another report", "no report"])
def test_samples_alone_are_refused_unless_the_report_is_the_last_written(other: bool) -> None:  # noqa: FBT001 -- a column of the table
    def make(scene: Scene) -> Txn:
        scene.store.txn(TXNS["report"](scene))
        return TXNS["samples"](scene)

    def spoil(scene: Scene) -> None:
        key = scene.me.report_key
        scene.put(key, records.encode(REPORT), scene.me.lease) if other else scene.delete(key)

    assert refused(make, spoil)
