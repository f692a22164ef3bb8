"""One event, one new round: real members over a store, scripted workers."""

import asyncio

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from testing.waiting import aeventually
from tests.integration.rendezvous.conftest import Recruit
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


def rounds(*mates: GroupMember) -> list[list[int]]:
    return [mate.workers.rounds for mate in mates]


async def test_three_members_join_and_each_has_its_ranks(recruit: Recruit) -> None:
    crew = recruit(3, 3)
    crew.join(3)
    world = await crew.running(1)
    mates = crew.members_by_rank(world)
    places = [mate.workers.starts[0] for mate in mates]
    assert [(p.group_rank, p.base_rank, p.world_size) for p in places] == [(0, 0, 6), (1, 2, 6), (2, 4, 6)]
    assert {f"{p.master_addr}:{p.master_port}" for p in places} == {world.master}
    assert (world.restarts, world.node_losses, world.cause) == (0, 0, Cause.FIRST)


async def test_the_closer_of_a_new_job_and_its_first_world_come_in_one_revision(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    crew.join()
    await crew.world(RoundPhase.FORMING, 1)
    closer, world = await crew.observer.get(crew.keys.leader), await crew.observer.get(crew.keys.rendezvous_state)
    assert closer is not None
    assert world is not None
    assert closer.mod_revision == world.mod_revision


async def test_a_worker_failure_is_one_new_round_of_the_same_members_charged_once(recruit: Recruit) -> None:
    crew = recruit(2, 3)
    mates = crew.join(3)
    before = await crew.running(1)
    mates[1].workers.fail()
    world = await crew.running(2)
    assert (world.members, world.restarts, world.node_losses) == (before.members, 1, 0)
    assert world.master != before.master
    assert {mate.workers.starts[-1].restart_count for mate in mates} == {1}
    assert await crew.finish(*mates) == [0, 0, 0]
    assert rounds(*mates) == [[1, 2]] * 3


async def test_failures_on_all_nodes_at_once_are_one_restart(recruit: Recruit) -> None:
    crew = recruit(3, 3)
    mates = crew.join(3)
    await crew.running(1)
    for mate in mates:
        mate.workers.fail()
    world = await crew.running(2)
    assert (world.restarts, world.node_losses) == (1, 0)
    assert await crew.finish(*mates) == [0, 0, 0]


async def test_one_that_leaves_costs_one_round_and_nothing_is_counted(recruit: Recruit) -> None:
    crew = recruit(2, 3)
    crew.join(3)
    before = await crew.running(1)
    first, leaver, last = crew.members_by_rank(before)
    leaver.member.request_leave()
    world = await crew.running(2, first, last)
    assert await leaver.end() == ExitCode.LEFT
    assert (world.restarts, world.node_losses, world.cause) == (0, 0, Cause.NODE_LEFT)
    assert crew.members_by_rank(world) == [first, last]
    assert await crew.finish(first, last) == [0, 0]
    assert rounds(first, leaver, last) == [[1, 2], [1], [1, 2]]


async def test_nobody_runs_the_next_round_before_a_leaver_has_stopped(recruit: Recruit) -> None:
    crew = recruit(1, 2)
    crew.join(2)
    stayer, leaver = crew.members_by_rank(await crew.running(1))
    leaver.workers.slow = True
    leaver.member.request_leave()
    await aeventually(lambda: (leaver.workers.phase, stayer.workers.phase) == (Workers.STOPPING, Workers.NONE))
    assert (await crew.world(RoundPhase.FORMING, 2)).members == ()
    leaver.workers.let_stop()
    await crew.running(2, stayer)
    assert rounds(stayer, leaver) == [[1, 2], [1]]


async def test_one_that_crashes_is_a_loss_and_never_a_restart(recruit: Recruit) -> None:
    crew = recruit(2, 3)
    crew.join(3)
    first, second, victim = crew.members_by_rank(await crew.running(1))
    await victim.crash()
    world = await crew.running(2, first, second)
    assert (world.restarts, world.node_losses, world.cause) == (0, 1, Cause.NODE_LOST)
    assert await crew.finish(first, second) == [0, 0]
    assert rounds(first, second) == [[1, 2]] * 2


async def test_the_victims_of_a_crash_are_not_charged_though_they_fail_first(recruit: Recruit) -> None:
    crew = recruit(1, 2)
    crew.join(2)
    survivor, victim = crew.members_by_rank(await crew.running(1))
    await victim.crash()
    survivor.workers.fail()
    world = await crew.running(2, survivor)
    assert (world.restarts, world.node_losses) == (0, 1)


async def test_workers_are_stopped_as_the_spec_says_now_and_not_when_the_node_joined(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    crew.join(2)
    await crew.running(1)
    await crew.set_replicas(graceful_shutdown_s=77.0, stop_signal="SIGUSR1")
    await aeventually(
        lambda: all(
            m.member.session and m.member.session.runtime_config.graceful_shutdown_s == 77.0 for m in crew.group_members
        )
    )
    await crew.set_replicas(restart_id="another")
    await crew.running(2)
    assert [mate.workers.told for mate in crew.group_members] == [(77.0, "SIGUSR1")] * 2
    assert await crew.finish(*crew.group_members) == [0, 0]


async def test_a_joiner_costs_one_round_and_takes_the_last_place(recruit: Recruit) -> None:
    crew = recruit(2, 3)
    crew.join(2)
    before = await crew.running(1)
    old = crew.members_by_rank(before)
    (joiner,) = crew.join()
    world = await crew.running(2)
    assert crew.members_by_rank(world) == [*old, joiner]
    assert (world.restarts, world.cause) == (0, Cause.NODE_JOINED)
    assert await crew.finish(*old, joiner) == [0, 0, 0]
    assert rounds(*old, joiner) == [[1, 2], [1, 2], [2]]


async def test_a_spare_waits_without_a_round_and_replaces_one_that_is_lost(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    members = crew.join(2)
    before = await crew.running(1, *members)
    (spare,) = crew.join()
    survivor, victim = crew.members_by_rank(before)
    await victim.crash()
    await crew.running(2, survivor, spare)
    assert rounds(survivor, spare) == [[1, 2], [2]]
    assert await crew.finish(survivor, spare) == [0, 0]


async def test_the_job_succeeds_when_all_are_done_and_not_before(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    early, late = crew.join(2)
    await crew.running(1)
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1)
    assert not early.task.done()
    late.workers.finish()
    assert [await early.end(), await late.end()] == [ExitCode.OK, ExitCode.OK]


async def test_a_finished_member_runs_again_when_another_fails(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    early, late = crew.join(2)
    await crew.running(1)
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1)
    late.workers.fail()
    await crew.running(2)
    assert await crew.finish(early, late) == [0, 0]


async def test_the_failure_after_the_last_restart_ends_the_job_with_the_root_causes_code(recruit: Recruit) -> None:
    crew = recruit(2, 2, max_restarts=1)
    crew.join(2)
    mates = crew.members_by_rank(await crew.running(1))
    mates[0].workers.fail(3)
    await crew.running(2)
    mates[1].workers.fail(42)
    assert [await mate.end() for mate in mates] == [ExitCode.PEER_FAILED, 42]
    outcome = mates[0].task.result()
    assert outcome.detail == "rank 2 exited with code 42: exit 42; maxRestarts 1 is used up"
    assert rounds(*mates) == [[1, 2]] * 2


async def test_a_death_by_signal_is_the_root_cause_though_a_peer_exits_first(recruit: Recruit) -> None:
    crew = recruit(2, 2, max_restarts=0)
    mates = crew.join(2)
    await crew.running(1)
    mates[0].workers.fail(1)
    mates[1].workers.fail(-9)
    assert [await mate.end() for mate in mates] == [ExitCode.PEER_FAILED, 128 + 9]


async def test_another_closes_when_the_closer_dies(recruit: Recruit) -> None:
    crew = recruit(1, 3)
    mates = crew.join(3)
    await crew.running(1)
    closer = await crew.leader()
    await closer.crash()
    others = [mate for mate in mates if mate is not closer]
    world = await crew.running(2, *others)
    assert world.node_losses == 1
    others[0].workers.fail()
    assert (await crew.running(3, *others)).restarts == 1
    assert await crew.finish(*others) == [0, 0]


async def test_another_closes_when_the_closer_leaves(recruit: Recruit) -> None:
    crew = recruit(1, 3)
    mates = crew.join(3)
    await crew.running(1)
    closer = await crew.leader()
    closer.member.request_leave()
    others = [mate for mate in mates if mate is not closer]
    await crew.running(2, *others)
    assert await closer.end() == ExitCode.LEFT
    assert await crew.finish(*others) == [0, 0]
    assert rounds(*others) == [[1, 2]] * 2


async def test_all_that_is_known_of_a_finished_run_is_cleared_away_and_its_name_can_be_used_again(
    recruit: Recruit,
) -> None:
    crew = recruit(2, 2)
    first = crew.join(2)
    await crew.running(1)
    assert await crew.finish(*first) == [0, 0]
    assert (await crew.observer.range(crew.keys.everything)).kvs == ()
    second = crew.join(2)
    await crew.running(1, *second)
    assert await crew.finish(*second) == [0, 0]


async def test_all_who_start_in_the_same_moment_get_slots_of_their_own(recruit: Recruit) -> None:
    crew = recruit(8, 8)
    crew.join(8)
    world = await crew.running(1)
    assert [member.slot for member in world.members] == list(range(8))
    assert sorted(p.base_rank for mate in crew.group_members for p in mate.workers.starts) == list(range(0, 16, 2))


async def test_one_that_is_told_to_leave_before_there_are_enough_leaves_at_once(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    (alone,) = crew.join()
    await aeventually(lambda: alone.member.session is not None)
    alone.member.request_leave()
    assert await alone.end() == ExitCode.LEFT
    assert (await crew.view()).nodes == {}


async def revoke(crew: MemberGroup, mate: GroupMember) -> None:
    """Its lease ends as if no refresh had come through."""
    assert await crew.observer.lease_revoke(mate.lease)


async def test_who_comes_back_before_anybody_noticed_goes_on_and_its_workers_are_not_touched(recruit: Recruit) -> None:
    crew = recruit(1, 1)
    (mate,) = crew.join()
    await crew.running(1)
    lost = mate.lease
    await revoke(crew, mate)
    await aeventually(lambda: mate.lease != lost, within_s=20)
    assert (mate.workers.rounds, mate.workers.stops) == ([1], 0)
    mate.workers.fail()
    assert (await crew.running(2)).restarts == 1
    assert await crew.finish(mate) == [0]


async def test_who_comes_back_too_late_begins_anew_and_nobody_is_charged(recruit: Recruit) -> None:
    crew = recruit(2, 3)
    mates = crew.join(3)
    await crew.running(1)
    closer = await crew.leader()
    lost = next(mate for mate in mates if mate is not closer)
    await revoke(crew, lost)
    await aeventually(lambda: lost.workers.stops, within_s=20)
    await aeventually(lambda: all(mate.workers.phase is Workers.RUNNING for mate in mates), within_s=20)
    view = await crew.view()
    assert view.world is not None
    assert (view.world.restarts, view.world.node_losses) == (0, 1)
    assert await crew.finish(*mates) == [0, 0, 0]


async def test_a_wedged_member_is_left_behind_and_told_when_it_comes_to(recruit: Recruit) -> None:
    crew = recruit(1, 2)
    mates = crew.join(2)
    await crew.running(1)
    closer = await crew.leader()
    other = next(mate for mate in mates if mate is not closer)
    other.workers.slow = True
    closer.workers.fail()
    await crew.world(RoundPhase.FORMING, 2)
    await revoke(crew, other)
    await crew.running(2, closer)
    assert other.workers.phase is Workers.STOPPING
    other.workers.let_stop()
    await crew.running(3)
    assert await crew.finish(*mates) == [0, 0]


async def test_ending_in_the_middle_of_anything_leaves_no_task_behind(recruit: Recruit) -> None:
    crew = recruit(2, 2)
    crew.join(2)
    await crew.running(1)
    await crew.close()
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not [name for name in left if not name.startswith("Task-")]
