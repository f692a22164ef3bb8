"""The view from raw keys: corrupt records do no harm, and each slot has one owner."""

from dataclasses import replace

import pytest

from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member, Membership, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_etcd.interface import KeyValue
from testing.newer_version import newer_value
from tests.unit.rendezvous.views import KEYS, ViewBuilder, a_node, member, view_builder

HOLDINGS = HoldingsRecord(port=7, steps={KeptStep(Lineage(2, "0000000a"), 120, 4): frozenset({0, 1})})


def a_full_view() -> ViewBuilder:
    job = view_builder().nodes(0, 1).active(3, 0, 1).expected(2).failure(3, 1).completion(3, 0)
    return job.holdings(1, HOLDINGS).tombstone(7, TombstoneReason.LEFT)


def test_every_kind_of_record_is_read() -> None:
    job = a_full_view()
    view = job.build()
    assert view.state is not None
    assert (view.state.phase, view.state.members) == (RoundPhase.ACTIVE, (member(0), member(1)))
    assert view.membership == Membership(3, (member(0), member(1)))
    assert view.expected == {2}
    assert {live.member: live.record for live in view.nodes.values()} == {member(0): a_node(0), member(1): a_node(1)}
    assert view.tombstones == {member(7): Tombstone(TombstoneReason.LEFT)}
    assert [str(key) for key in view.failures] == ["3/0001.0"]
    assert view.completions == {(3, 0): member(0)}
    assert view.holdings == {member(1): HOLDINGS}
    assert view.unreadable == ()


def test_additions_of_a_newer_version_to_any_record_change_nothing() -> None:
    job = a_full_view()
    known, newer = job.build(), a_full_view()
    for key, kv in job.items.items():
        newer.items[key] = replace(kv, value=newer_value(key, kv.value))
    assert [key for key, kv in job.items.items() if newer.items[key].value == kv.value] == [KEYS.link_secret]
    assert newer.build() == known


def test_revisions_are_those_of_the_keys() -> None:
    job = a_full_view()
    view = job.build()
    names = {"spec": KEYS.spec, "state": KEYS.rendezvous_state, "membership": KEYS.members, "expected": KEYS.expected}
    revisions = {name: getattr(view, f"{name}_revision") for name in names}
    assert revisions == {name: job.items[key].mod_revision for name, key in names.items()}
    assert len(set(revisions.values())) == 4


def test_a_missing_key_has_revision_0() -> None:
    view = parse_view(KEYS, [])
    assert (view.spec_revision, view.state_revision, view.membership_revision, view.expected_revision) == (0, 0, 0, 0)


CORRUPT = [b"", b"nonsense", b"\xff\xfe\x00", b"{}", b'{"v":2}', b'{"v":1,"slots":7,"reason":7}', b"w9 state=active\n"]
PLACES = {
    "spec": KEYS.spec,
    "expected": KEYS.expected,
    "state": KEYS.rendezvous_state,
    "members": KEYS.members,
    "node": KEYS.node(9, "0" * 8),
    "gone": KEYS.tombstone(9, "0" * 8),
    "held": KEYS.holdings(9, "0" * 8),
    "failure": KEYS.failure(3, 9, 0),
    "done": KEYS.completion(3, 9),
}


@pytest.mark.parametrize("data", CORRUPT)
@pytest.mark.parametrize("place", PLACES)
def test_a_corrupt_record_is_left_out_and_reported_without_loss_of_others(place: str, data: bytes) -> None:
    key, job = PLACES[place], a_full_view()
    whole = job.build()
    view = job.put_raw(key, data).build()
    assert len(view.unreadable) == 1
    assert view.unreadable[0].startswith(f"{key!r}: ")
    assert (view.nodes, view.failures, view.completions) == (whole.nodes, whole.failures, whole.completions)
    assert view.holdings == whole.holdings


def test_an_unreadable_state_still_has_its_revision() -> None:
    job = view_builder().put_raw(KEYS.rendezvous_state, b"nonsense")
    assert job.build().state_revision == job.revision


@pytest.mark.parametrize(
    "key", ["c/unknown", "c/nodes/0001", "c/nodes/1.0000000a", "c/nodes/0001.0000000A", "c/failures/x/0001.0"]
)
def test_keys_of_an_unknown_kind_are_ignored(key: str) -> None:
    view = view_builder().put_raw(KEYS.everything + key, b"anything").build()
    assert (view.nodes, view.failures, view.unreadable) == ({}, {}, ())


def test_a_list_is_read_as_well_as_a_mirror() -> None:
    job = a_full_view()
    assert parse_view(KEYS, list(job.items.values())) == job.build()


def test_failures_are_in_etcds_order_and_in_the_order_of_ranks_within_one_transaction() -> None:
    job = view_builder().failure(3, 1).failure(2, 0).failure(3, 0)
    first = job.items[KEYS.failure(3, 1, 0)]
    same = KeyValue(KEYS.failure(3, 1, 1), first.value, first.create_revision, first.mod_revision, version=1)
    job.items[same.key] = same
    assert [str(failure.key) for failure in job.build().failures_of(3)] == ["3/0001.0", "3/0001.1", "3/0000.0"]


OLD, NEW = "0000000a", "0000000b"


@pytest.mark.parametrize(
    ("job", "owners"),
    [
        pytest.param(
            view_builder().node(0, incarnation=OLD).node(0, incarnation=NEW),
            {Member(0, OLD)},
            id="no operator: the oldest",
        ),
        pytest.param(
            view_builder().owned_by(s0="pod-0").node(0, incarnation=OLD).node(0, incarnation=NEW),
            {Member(0, NEW)},
            id="an operator: the newest of the pod",
        ),
        pytest.param(
            view_builder().owned_by(s0="pod-0").node(0, incarnation=OLD).node(0, incarnation=NEW, pod="pod-9"),
            {Member(0, OLD)},
            id="an operator: never another pod's",
        ),
        pytest.param(view_builder().owned_by(s1="pod-0").node(0), set(), id="an operator: a slot without a pod"),
        pytest.param(view_builder().no_spec().node(0), {member(0)}, id="no spec: as without an operator"),
    ],
)
def test_the_live_key_that_counts_for_a_slot(job: ViewBuilder, owners: set[Member]) -> None:
    assert set(job.build().current_nodes()) == owners


def test_the_operators_topology_is_used_if_there_is_one() -> None:
    job = view_builder().node(0, topology="own")
    (live,) = job.build().nodes.values()
    assert RendezvousView().topology(live) == "own"
    assert job.owned_by(s0="pod-0").build().topology(live) == ""


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        pytest.param(view_builder().nodes(0), "", id="its key exists"),
        pytest.param(view_builder(), "lost", id="its key is gone"),
        pytest.param(view_builder().nodes(0).tombstone(0, TombstoneReason.WEDGED), "lost", id="it was evicted"),
        pytest.param(view_builder().tombstone(0, TombstoneReason.POD_DELETED), "lost", id="its pod was deleted"),
        pytest.param(view_builder().tombstone(0, TombstoneReason.LEFT), "left", id="it left"),
        pytest.param(view_builder().nodes(0).tombstone(0, TombstoneReason.LEFT), "left", id="it has just left"),
        pytest.param(view_builder().node(0, leaving=True), "left", id="it is leaving"),
        pytest.param(
            view_builder().node(0, leaving=True).tombstone(0, TombstoneReason.WEDGED), "left", id="it left too slowly"
        ),
        pytest.param(view_builder().completion(3, 0), "", id="it has completed"),
        pytest.param(view_builder().completion(3, 0).tombstone(0, TombstoneReason.LEFT), "", id="and then left"),
        pytest.param(view_builder().completion(2, 0), "lost", id="it completed an earlier round"),
        pytest.param(view_builder().nodes(1).completion(3, 1), "lost", id="another member has completed"),
    ],
)
def test_a_member_of_round_3_is_there_has_left_or_is_lost(job: ViewBuilder, outcome: str) -> None:
    view = job.build()
    assert (view.has_left(3, member(0)), view.is_lost(3, member(0))) == (outcome == "left", outcome == "lost")


def test_the_completion_of_another_incarnation_does_not_count() -> None:
    view = view_builder().completion(3, 0).build()
    assert view.has_completed(3, member(0))
    assert not view.has_completed(3, Member(0, "0000000f"))


def test_reports_are_left_to_the_operator() -> None:
    assert view_builder().put_raw(KEYS.report(0, "0" * 8), b"nonsense").build() == view_builder().build()
