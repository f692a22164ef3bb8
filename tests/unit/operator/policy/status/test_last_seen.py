"""Records that are remembered after their deletion: the last reports, and the members lost from a round."""

from elasticjob_api.records import Tombstone, TombstoneReason, WorkerState
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.last_seen import LastSeen, PodLocation
from elasticjob_operator.policy.status.last_seen import record_view
from testing.builders import (
    active,
    by_name,
    member,
    membership,
    nodes,
    pod,
    record,
    report,
    running,
    samples,
    state,
    view,
)

PODS = by_name(pod(0), pod(1))
FORMING = state(round=2)


def remembered(*views: RendezvousView) -> LastSeen:
    last_seen = LastSeen()
    for at in views:
        record_view(last_seen, at, PODS)
    return last_seen


def lost(last_seen: LastSeen) -> list[int]:
    return [each.member.slot for each in last_seen.lost_nodes]


def test_the_report_of_a_member_is_kept_after_its_agent_is_gone() -> None:
    reported, sampled = report(0, WorkerState.SUCCEEDED), samples()
    before = running(0, reports={member(0): reported}, samples={member(0): sampled})
    last_seen = remembered(before, running(0, nodes={}))
    assert (last_seen.reports, last_seen.samples) == ({member(0): reported}, {member(0): sampled})


def test_sessions_that_are_gone_and_not_of_the_last_round_are_dropped() -> None:
    left = {member(0): Tombstone(TombstoneReason.LEFT)}
    gone = running(1, nodes={}, tombstones=left, membership=membership(1, round_=9))
    last_seen = remembered(running(0, reports={member(0): report(0)}), gone, gone)
    assert (last_seen.reports, list(last_seen.locations)) == ({}, [])


def test_a_lost_member_is_kept_with_its_pod_after_the_next_round_is_active() -> None:
    forming = view(0, 1, spec=record(0, 1), nodes=nodes(0), state=FORMING, membership=membership(0, 1))
    closed = running(0, state=active(0, round=2), membership=membership(0, round_=2))
    last_seen = remembered(running(0, 1), forming, closed, closed)
    assert lost(last_seen) == [1]
    assert last_seen.locations[member(1)] == PodLocation("j-1-a", "node-1")


def test_a_loss_is_recorded_if_the_next_round_became_active_in_the_same_change() -> None:
    last_seen = remembered(running(0, 1), running(0, state=active(0, round=2), membership=membership(0, round_=2)))
    assert lost(last_seen) == [1]


def test_a_member_that_left_is_not_lost() -> None:
    gone = {member(1): Tombstone(TombstoneReason.LEFT)}
    forming = view(0, nodes=nodes(0), tombstones=gone, state=FORMING, membership=membership(0, 1))
    assert lost(remembered(running(0, 1), forming)) == []


def test_the_end_of_a_job_is_no_loss() -> None:
    ended = view(nodes={}, state=state(RoundPhase.SUCCEEDED), membership=membership(0, 1))
    assert lost(remembered(running(0, 1), ended)) == []


def test_a_lost_member_with_a_tombstone_is_listed_first() -> None:
    gone = {member(1): Tombstone(TombstoneReason.POD_FAILED, "Evicted")}
    forming = view(nodes={}, tombstones=gone, state=FORMING, membership=membership(0, 1))
    assert lost(remembered(running(0, 1), forming)) == [1, 0]
