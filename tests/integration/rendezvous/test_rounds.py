"""One event, one new round: real members over a store, with scripted workers."""

import asyncio

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from testing.waiting import aeventually
from tests.integration.rendezvous.conftest import MakeGroup
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


def rounds(*peers: GroupMember) -> list[list[int]]:
    return [peer.workers.rounds for peer in peers]


async def test_three_members_join_and_each_has_its_ranks(make_group: MakeGroup) -> None:
    group = make_group(3, 3)
    group.join(3)
    state = await group.running(1)
    peers = group.members_by_rank(state)
    places = [peer.workers.starts[0] for peer in peers]
    assert [(p.group_rank, p.base_rank, p.world_size) for p in places] == [(0, 0, 6), (1, 2, 6), (2, 4, 6)]
    assert {f"{p.master_addr}:{p.master_port}" for p in places} == {state.master}
    assert (state.restarts, state.node_losses, state.cause) == (0, 0, Cause.FIRST)


async def test_the_leader_of_a_new_job_and_the_first_state_are_written_in_one_revision(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    group.join()
    await group.state(RoundPhase.FORMING, 1)
    leader, state = await group.observer.get(group.keys.leader), await group.observer.get(group.keys.rendezvous_state)
    assert leader is not None
    assert state is not None
    assert leader.mod_revision == state.mod_revision


async def test_a_worker_failure_is_one_new_round_of_the_same_members_charged_once(make_group: MakeGroup) -> None:
    group = make_group(2, 3)
    peers = group.join(3)
    before = await group.running(1)
    peers[1].workers.fail()
    state = await group.running(2)
    assert (state.members, state.restarts, state.node_losses) == (before.members, 1, 0)
    assert state.master != before.master
    assert {peer.workers.starts[-1].restart_count for peer in peers} == {1}
    assert await group.finish(*peers) == [0, 0, 0]
    assert rounds(*peers) == [[1, 2]] * 3


async def test_failures_on_all_nodes_at_once_are_one_restart(make_group: MakeGroup) -> None:
    group = make_group(3, 3)
    peers = group.join(3)
    await group.running(1)
    for peer in peers:
        peer.workers.fail()
    state = await group.running(2)
    assert (state.restarts, state.node_losses) == (1, 0)
    assert await group.finish(*peers) == [0, 0, 0]


async def test_a_leave_costs_one_round_and_nothing_is_counted(make_group: MakeGroup) -> None:
    group = make_group(2, 3)
    group.join(3)
    before = await group.running(1)
    first, leaver, last = group.members_by_rank(before)
    leaver.member.request_leave()
    state = await group.running(2, first, last)
    assert await leaver.end() == ExitCode.LEFT
    assert (state.restarts, state.node_losses, state.cause) == (0, 0, Cause.NODE_LEFT)
    assert group.members_by_rank(state) == [first, last]
    assert await group.finish(first, last) == [0, 0]
    assert rounds(first, leaver, last) == [[1, 2], [1], [1, 2]]


async def test_no_member_runs_the_next_round_before_a_leaving_member_has_stopped(make_group: MakeGroup) -> None:
    group = make_group(1, 2)
    group.join(2)
    stayer, leaver = group.members_by_rank(await group.running(1))
    leaver.workers.slow = True
    leaver.member.request_leave()
    await aeventually(lambda: (leaver.workers.phase, stayer.workers.phase) == (Workers.STOPPING, Workers.NONE))
    assert (await group.state(RoundPhase.FORMING, 2)).members == ()
    leaver.workers.let_stop()
    await group.running(2, stayer)
    assert rounds(stayer, leaver) == [[1, 2], [1]]


async def test_a_crashed_member_is_a_loss_and_never_a_restart(make_group: MakeGroup) -> None:
    group = make_group(2, 3)
    group.join(3)
    first, second, victim = group.members_by_rank(await group.running(1))
    await victim.crash()
    state = await group.running(2, first, second)
    assert (state.restarts, state.node_losses, state.cause) == (0, 1, Cause.NODE_LOST)
    assert await group.finish(first, second) == [0, 0]
    assert rounds(first, second) == [[1, 2]] * 2


async def test_failures_because_of_a_crash_are_not_charged_even_if_they_are_first(make_group: MakeGroup) -> None:
    group = make_group(1, 2)
    group.join(2)
    survivor, victim = group.members_by_rank(await group.running(1))
    await victim.crash()
    survivor.workers.fail()
    state = await group.running(2, survivor)
    assert (state.restarts, state.node_losses) == (0, 1)


async def test_workers_are_stopped_by_the_current_spec_and_not_by_that_of_the_join(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    group.join(2)
    await group.running(1)
    await group.set_replicas(graceful_shutdown_s=77.0, stop_signal="SIGUSR1")
    await aeventually(
        lambda: all(
            m.member.session and m.member.session.runtime_config.graceful_shutdown_s == 77.0
            for m in group.group_members
        )
    )
    await group.set_replicas(restart_id="another")
    await group.running(2)
    assert [peer.workers.last_stop_order for peer in group.group_members] == [(77.0, "SIGUSR1")] * 2
    assert await group.finish(*group.group_members) == [0, 0]


async def test_a_joiner_costs_one_round_and_gets_the_last_rank(make_group: MakeGroup) -> None:
    group = make_group(2, 3)
    group.join(2)
    before = await group.running(1)
    old = group.members_by_rank(before)
    (joiner,) = group.join()
    state = await group.running(2)
    assert group.members_by_rank(state) == [*old, joiner]
    assert (state.restarts, state.cause) == (0, Cause.NODE_JOINED)
    assert await group.finish(*old, joiner) == [0, 0, 0]
    assert rounds(*old, joiner) == [[1, 2], [1, 2], [2]]


async def test_a_spare_waits_without_a_round_and_replaces_a_lost_member(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    members = group.join(2)
    before = await group.running(1, *members)
    (spare,) = group.join()
    survivor, victim = group.members_by_rank(before)
    await victim.crash()
    await group.running(2, survivor, spare)
    assert rounds(survivor, spare) == [[1, 2], [2]]
    assert await group.finish(survivor, spare) == [0, 0]


async def test_the_job_succeeds_when_all_are_done_and_not_before(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    early, late = group.join(2)
    await group.running(1)
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1)
    assert not early.task.done()
    late.workers.finish()
    assert [await early.end(), await late.end()] == [ExitCode.OK, ExitCode.OK]


async def test_a_finished_member_runs_again_when_another_fails(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    early, late = group.join(2)
    await group.running(1)
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1)
    late.workers.fail()
    await group.running(2)
    assert await group.finish(early, late) == [0, 0]


async def test_the_failure_after_the_last_restart_ends_the_job_with_the_root_causes_code(make_group: MakeGroup) -> None:
    group = make_group(2, 2, max_restarts=1)
    group.join(2)
    peers = group.members_by_rank(await group.running(1))
    peers[0].workers.fail(3)
    await group.running(2)
    peers[1].workers.fail(42)
    assert [await peer.end() for peer in peers] == [ExitCode.PEER_FAILED, 42]
    outcome = peers[0].task.result()
    assert outcome.detail == "rank 2 exited with code 42: exit 42; maxRestarts 1 is used up"
    assert rounds(*peers) == [[1, 2]] * 2


async def test_an_end_by_signal_is_the_root_cause_even_if_a_peer_exits_first(make_group: MakeGroup) -> None:
    group = make_group(2, 2, max_restarts=0)
    peers = group.join(2)
    await group.running(1)
    peers[0].workers.fail(1)
    peers[1].workers.fail(-9)
    assert [await peer.end() for peer in peers] == [ExitCode.PEER_FAILED, 128 + 9]


async def test_another_member_leads_after_a_leader_crashes(make_group: MakeGroup) -> None:
    group = make_group(1, 3)
    peers = group.join(3)
    await group.running(1)
    leader = await group.leader()
    await leader.crash()
    others = [peer for peer in peers if peer is not leader]
    state = await group.running(2, *others)
    assert state.node_losses == 1
    others[0].workers.fail()
    assert (await group.running(3, *others)).restarts == 1
    assert await group.finish(*others) == [0, 0]


async def test_another_member_leads_after_a_leader_leaves(make_group: MakeGroup) -> None:
    group = make_group(1, 3)
    peers = group.join(3)
    await group.running(1)
    leader = await group.leader()
    leader.member.request_leave()
    others = [peer for peer in peers if peer is not leader]
    await group.running(2, *others)
    assert await leader.end() == ExitCode.LEFT
    assert await group.finish(*others) == [0, 0]
    assert rounds(*others) == [[1, 2]] * 2


async def test_all_keys_of_a_finished_run_are_deleted_and_its_name_can_be_used_again(
    make_group: MakeGroup,
) -> None:
    group = make_group(2, 2)
    first = group.join(2)
    await group.running(1)
    assert await group.finish(*first) == [0, 0]
    assert (await group.observer.range(group.keys.everything)).kvs == ()
    second = group.join(2)
    await group.running(1, *second)
    assert await group.finish(*second) == [0, 0]


async def test_members_that_start_at_the_same_moment_get_different_slots(make_group: MakeGroup) -> None:
    group = make_group(8, 8)
    group.join(8)
    state = await group.running(1)
    assert [member.slot for member in state.members] == list(range(8))
    assert sorted(p.base_rank for peer in group.group_members for p in peer.workers.starts) == list(range(0, 16, 2))


async def test_a_member_with_an_order_to_leave_before_the_first_round_leaves_at_once(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    (alone,) = group.join()
    await aeventually(lambda: alone.member.session is not None)
    alone.member.request_leave()
    assert await alone.end() == ExitCode.LEFT
    assert (await group.view()).nodes == {}


async def revoke(group: MemberGroup, peer: GroupMember) -> None:
    """End the lease of a member as if no renewal had arrived."""
    assert await group.observer.lease_revoke(peer.lease)


async def test_a_member_that_rejoins_in_time_continues_and_its_workers_are_not_touched(make_group: MakeGroup) -> None:
    group = make_group(1, 1)
    (peer,) = group.join()
    await group.running(1)
    lost = peer.lease
    await revoke(group, peer)
    await aeventually(lambda: peer.lease != lost, within_s=20)
    assert (peer.workers.rounds, peer.workers.stops) == ([1], 0)
    peer.workers.fail()
    assert (await group.running(2)).restarts == 1
    assert await group.finish(peer) == [0]


async def test_a_member_that_returns_too_late_joins_again_and_nothing_is_charged(make_group: MakeGroup) -> None:
    group = make_group(2, 3)
    peers = group.join(3)
    await group.running(1)
    leader = await group.leader()
    lost = next(peer for peer in peers if peer is not leader)
    await revoke(group, lost)
    await aeventually(lambda: lost.workers.stops, within_s=20)
    await aeventually(lambda: all(peer.workers.phase is Workers.RUNNING for peer in peers), within_s=20)
    view = await group.view()
    assert view.state is not None
    assert (view.state.restarts, view.state.node_losses) == (0, 1)
    assert await group.finish(*peers) == [0, 0, 0]


async def test_a_wedged_member_is_evicted_and_joins_again_when_its_workers_have_stopped(make_group: MakeGroup) -> None:
    group = make_group(1, 2)
    peers = group.join(2)
    await group.running(1)
    leader = await group.leader()
    other = next(peer for peer in peers if peer is not leader)
    other.workers.slow = True
    leader.workers.fail()
    await group.state(RoundPhase.FORMING, 2)
    await revoke(group, other)
    await group.running(2, leader)
    assert other.workers.phase is Workers.STOPPING
    other.workers.let_stop()
    await group.running(3)
    assert await group.finish(*peers) == [0, 0]


async def test_a_cancelled_member_leaves_no_task_behind(make_group: MakeGroup) -> None:
    group = make_group(2, 2)
    group.join(2)
    await group.running(1)
    await group.close()
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not [name for name in left if not name.startswith("Task-")]
