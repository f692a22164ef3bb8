"""What is remembered of records that go: the last reports, and who was lost from a round."""

from elasticjob_api.records import Gone, GoneReason, WorkerState
from elasticjob_operator.model.last_seen import Memory, Place
from elasticjob_operator.model.rendezvous_view import View
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
    view,
    world,
)

PODS = by_name(pod(0), pod(1))
FORMING = world(round=2)


def remembered(*views: View) -> Memory:
    memory = Memory()
    for at in views:
        memory.note(at, PODS)
    return memory


def lost(memory: Memory) -> list[int]:
    return [each.member.slot for each in memory.lost]


def test_a_report_outlives_its_agent_as_long_as_it_was_a_member() -> None:
    told = report(0, WorkerState.SUCCEEDED)
    memory = remembered(running(0, reports={member(0): told}), running(0, nodes={}))
    assert memory.reports == {member(0): told}


def test_nothing_is_kept_of_stays_that_are_neither_here_nor_of_the_last_round() -> None:
    left = {member(0): Gone(GoneReason.LEFT)}
    gone = running(1, nodes={}, gone=left, membership=membership(1, round_=9))
    memory = remembered(running(0, reports={member(0): report(0)}), gone, gone)
    assert (memory.reports, list(memory.places)) == ({}, [])


def test_a_lost_member_is_remembered_with_its_pod_after_the_next_round_has_closed() -> None:
    forming = view(0, 1, spec=record(0, 1), nodes=nodes(0), world=FORMING, membership=membership(0, 1))
    closed = running(0, world=active(0, round=2), membership=membership(0, round_=2))
    memory = remembered(running(0, 1), forming, closed, closed)
    assert lost(memory) == [1]
    assert memory.places[member(1)] == Place("j-1-a", "node-1")


def test_a_loss_is_seen_although_its_round_came_and_went_in_one_change() -> None:
    memory = remembered(running(0, 1), running(0, world=active(0, round=2), membership=membership(0, round_=2)))
    assert lost(memory) == [1]


def test_who_said_goodbye_is_not_lost() -> None:
    gone = {member(1): Gone(GoneReason.LEFT)}
    forming = view(0, nodes=nodes(0), gone=gone, world=FORMING, membership=membership(0, 1))
    assert lost(remembered(running(0, 1), forming)) == []


def test_the_end_of_a_job_is_no_loss() -> None:
    ended = view(nodes={}, world=world(state=world().state.SUCCEEDED), membership=membership(0, 1))
    assert lost(remembered(running(0, 1), ended)) == []


def test_of_several_the_one_with_proof_is_first() -> None:
    gone = {member(1): Gone(GoneReason.POD_FAILED, "Evicted")}
    forming = view(nodes={}, gone=gone, world=FORMING, membership=membership(0, 1))
    assert lost(remembered(running(0, 1), forming)) == [1, 0]
