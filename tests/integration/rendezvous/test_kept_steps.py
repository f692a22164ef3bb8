"""Steps that the nodes keep: real members over a store, with scripted workers and scripted holdings."""

import asyncio
from collections.abc import Collection, Mapping

from elasticjob_agent.rendezvous.protocol.keep.sources import parse_sources
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase, Workers
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.holdings import HoldingsRecord, decode_holdings
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from testing.waiting import aeventually, slowness
from tests.integration.rendezvous.conftest import MakeGroup
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


def step(state: RendezvousState, number: int) -> KeptStep:
    """Return a step of two parts that this round has written."""
    return KeptStep(Lineage(state.round, state.nonce), number, 2)


def hold(peer: GroupMember, steps: Mapping[KeptStep, set[int]]) -> None:
    held = {each: frozenset(parts) for each, parts in steps.items()}
    peer.keep.record = HoldingsRecord(port=7, steps=held)


async def test_after_a_failure_the_newest_whole_step_is_restored_before_any_worker_starts(
    make_group: MakeGroup,
) -> None:
    group = make_group(2, 2, keep_copies=1)
    group.join(2)
    first = await group.running(1)
    slow, fast = group.members_by_rank(first)
    hold(slow, {step(first, 5): {0}, step(first, 7): {0}, step(first, 9): {0}})
    hold(fast, {step(first, 5): {1}, step(first, 7): {1}})
    slow.keep.phase = RestorePhase.FETCHING
    fast.workers.fail()
    state = await group.state(RoundPhase.ACTIVE, 2)
    assert (state.step_to_restore(), state.run, state.restarts) == (step(first, 7), first.run, 1)
    sources = parse_sources(state.sources, step(first, 7), state.members)
    assert sources.holders == dict(enumerate(first.members))
    await aeventually(lambda: fast.workers.rounds == [1, 2], within_s=20, what="the node with all parts starts")
    assert (slow.workers.rounds, slow.workers.phase) == ([1], Workers.NONE)
    slow.keep.become(RestorePhase.COMPLETE)
    await group.running(2)


async def test_a_step_that_cannot_be_restored_gives_way_to_an_older_one_and_charges_no_restart(
    make_group: MakeGroup,
) -> None:
    group = make_group(2, 2, keep_copies=1)
    group.join(2)
    first = await group.running(1)
    peers = group.members_by_rank(first)
    for part, peer in enumerate(peers):
        hold(peer, {step(first, 5): {part}, step(first, 7): {part}})
    peers[1].keep.phase = RestorePhase.FETCHING
    peers[0].workers.fail()
    await group.state(RoundPhase.ACTIVE, 2)
    peers[1].keep.become(RestorePhase.FAILED)
    # The next round restores an older step, which fails as well; then there is none.
    last = await group.running(4)
    assert (last.step_to_restore(), last.restarts, last.cause) == (None, 1, Cause.RESTORE_FAILED)
    assert peers[1].workers.rounds == [1, 4]


async def test_a_lost_node_takes_only_the_steps_that_it_alone_had(make_group: MakeGroup) -> None:
    group = make_group(1, 2, keep_copies=1)
    group.join(2)
    first = await group.running(1)
    stayer, lost = group.members_by_rank(first)
    hold(stayer, {step(first, 5): {0, 1}, step(first, 7): {0}})
    hold(lost, {step(first, 5): {0, 1}, step(first, 7): {1}})
    await lost.crash()
    state = await group.running(2, stayer)
    assert state.step_to_restore() == step(first, 5)
    assert state.kept_history().is_alive(step(first, 5))
    assert not state.kept_history().is_alive(step(first, 7))


async def test_a_node_without_a_keeper_writes_no_holdings_and_the_state_has_no_word_of_them(
    make_group: MakeGroup,
) -> None:
    group = make_group(2, 2)
    peers = group.join(2)
    await group.running(1)
    peers[0].workers.fail()
    state = await group.running(2)
    assert (await group.observer.range(group.keys.all_holdings)).kvs == ()
    assert (state.run, state.history, state.restore, state.sources, state.shift) == ("", "", "", "", "")


async def test_a_node_that_leaves_reports_its_last_steps_and_stays_until_the_next_round_has_them(
    make_group: MakeGroup,
) -> None:
    group = make_group(1, 2, keep_copies=1)
    group.join(2)
    first = await group.running(1)
    leaver, stayer = group.members_by_rank(first)
    hold(stayer, {step(first, 7): {1}})
    hold(leaver, {})
    leaver.keep.published = HoldingsRecord(port=7, steps={step(first, 7): frozenset({0})})
    leaver.keep.is_needed = True
    leaver.member.request_leave()
    state = await group.state(RoundPhase.ACTIVE, 2)
    assert (state.step_to_restore(), len(state.members)) == (step(first, 7), 1)
    assert parse_sources(state.sources, step(first, 7), state.members).holders == {
        0: first.members[0],
        1: first.members[1],
    }
    await aeventually(lambda: stayer.workers.rounds == [1, 2], within_s=20, what="the node that stays has fetched it")
    assert not leaver.task.done()
    leaver.keep.is_needed = False
    leaver.keep.on_change()
    assert await leaver.end() == ExitCode.LEFT


async def test_a_member_that_joins_again_has_taken_its_last_steps_before(make_group: MakeGroup) -> None:
    group = make_group(2, 2, keep_copies=1)
    peers = group.join(2)
    first = await group.running(1)
    leader = await group.leader()
    lost = next(peer for peer in peers if peer is not leader)
    for part, peer in enumerate(group.members_by_rank(first)):
        hold(peer, {step(first, 7): {part}})
    lost.keep.record, lost.keep.published = HoldingsRecord(port=7), lost.keep.record
    before = (await group.observer.range(group.keys.all_holdings)).revision
    lost.workers.slow = True
    session = lost.member.session
    assert session is not None
    assert await group.observer.lease_revoke(lost.lease)
    await aeventually(session.keeper.lost.is_set, within_s=20, what="the member finds that its session has ended")
    assert (await group.state(RoundPhase.FORMING, 2)).cause is Cause.NODE_LOST
    await aeventually(lambda: lost.workers.phase is Workers.STOPPING, within_s=20, what="its workers save and stop")
    lost.workers.slow = False
    lost.workers.let_stop()
    state = await group.running(2)
    # The leader may close the round by this record: the node has run nothing in its new session.
    record = await first_new_record(group, first.members, before + 1)
    assert record == lost.keep.published
    assert state.step_to_restore() == step(first, 7)


async def first_new_record(group: MemberGroup, members: Collection[Member], start_revision: int) -> HoldingsRecord:
    """Return the first holdings that a session wrote that is none of these members."""
    old = {group.keys.holdings(member.slot, member.incarnation) for member in members}
    async with asyncio.timeout(20 * slowness()):
        async for batch in group.observer.watch(group.keys.all_holdings, start_revision=start_revision):
            for event in batch.events:
                if not event.deleted and event.kv.key not in old:
                    return decode_holdings(event.kv.value)
    raise AssertionError("the watch has ended")
