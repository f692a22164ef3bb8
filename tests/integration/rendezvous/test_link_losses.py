"""A lost node with a lease of an hour: only the link can detect it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import pytest

from elasticjob_api.records import SpecRecord, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, decode_state
from elasticjob_etcd.interface import Etcd, WatchBatch
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


@pytest.fixture
async def group(connect: Callable[[], Etcd], prefix: str) -> AsyncIterator[MemberGroup]:
    """Return three members with a lease of an hour."""
    made = MemberGroup(connect, prefix, SpecRecord(min=1, max=3, desired=3), lease_ttl_s=3600.0)
    made.join(3)
    await made.running(1)
    yield made
    await made.close()


async def linked(group: MemberGroup) -> GroupMember:
    """Wait for all links, and return the leader."""
    leader = await group.leader()
    others = [peer for peer in group.group_members if peer is not leader]
    await aeventually(lambda: all(peer.member._listener._links for peer in others), within_s=20, what="links")
    return leader


async def test_a_member_that_crashes_is_detected_by_its_link(group: MemberGroup) -> None:
    leader = await linked(group)
    victim, *others = [peer for peer in group.group_members if peer is not leader]
    gone = victim.member.session
    assert gone is not None
    await victim.crash()
    state = await group.running(2, leader, *others)
    assert (state.cause, state.node_losses) == (Cause.NODE_LOST, 1)
    assert (await group.view()).tombstones[gone.me.member].reason is TombstoneReason.REFUSED


async def test_a_leader_that_crashes_is_detected_by_its_members(group: MemberGroup) -> None:
    leader = await linked(group)
    others = [peer for peer in group.group_members if peer is not leader]
    await leader.crash()
    state = await group.running(2, *others)
    assert (state.cause, state.node_losses) == (Cause.NODE_LOST, 1)


async def test_a_leader_and_a_member_that_crash_at_once_are_both_detected(group: MemberGroup) -> None:
    """The next leader never had a link to the other, but its predecessor had one."""
    leader = await linked(group)
    victim, survivor = [peer for peer in group.group_members if peer is not leader]
    await asyncio.gather(leader.crash(), victim.crash())
    state = await group.running(2, survivor)
    assert (state.cause, state.node_losses, len(state.members)) == (Cause.NODE_LOST, 1, 1)


async def test_after_a_leader_that_left_in_order_a_refused_dial_is_no_proof(group: MemberGroup) -> None:
    leader = await linked(group)
    deaf, other = [peer for peer in group.group_members if peer is not leader]
    assert leader.member._election._round_leader is not None
    await leader.member._election._round_leader._links.close()
    await deaf.member._listener.close()  # its process runs, and its port refuses
    leader.member.request_leave()
    await group.running(2, deaf, other)
    assert [gone.reason for gone in (await group.view()).tombstones.values()] == [TombstoneReason.LEFT]


async def test_a_leader_that_resigns_and_lives_is_not_evicted(group: MemberGroup) -> None:
    leader = await linked(group)
    assert leader.member._election._round_leader is not None
    await leader.member._election._round_leader._links.close()
    others = [peer for peer in group.group_members if peer is not leader]
    await aeventually(lambda: not any(peer.member._listener._links for peer in others), within_s=20)
    await aeventually(lambda: all(_has_probed(peer) for peer in others), within_s=20, what="all have probed")
    view = await group.view()
    assert len(view.nodes) == 3
    assert view.tombstones == {}


def _has_probed(peer: GroupMember) -> bool:
    asking = peer.member._leader_monitor._probe_task
    return asking is not None and asking.done()


class _LateEnd(InMemoryEtcd):
    """An etcd in which the leader's watch shows the end last, as can happen under load."""

    def __init__(self, store: InMemoryStore, end_shown: asyncio.Event) -> None:
        super().__init__(store)
        self._end_shown = end_shown
        self._closes = False

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        self._closes |= prefix.endswith("/c/")
        async for batch in super().watch(prefix, start_revision=start_revision):
            states = [event.kv.value for event in batch.events if event.kv.key.endswith("/c/ctl/world")]
            if self._closes and any(decode_state(state).phase.is_final for state in states):
                await self._end_shown.wait()
            yield batch


async def test_a_leader_that_has_ended_the_job_counts_no_exiting_member_as_lost(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, end_shown = InMemoryStore(min_ttl_s=1.0), asyncio.Event()
    group = MemberGroup(
        lambda: _LateEnd(store, end_shown), prefix, SpecRecord(min=3, max=3, desired=3), lease_ttl_s=3600.0
    )
    group.join(3)
    await group.running(1)
    leader = await linked(group)
    links = [task for task in asyncio.all_tasks() if task.get_name().startswith("link to ")]
    for peer in group.group_members:
        peer.workers.finish()
    assert [await peer.end() for peer in group.group_members if peer is not leader] == [0, 0]
    await asyncio.wait(links, timeout=20)
    end_shown.set()
    assert await leader.end() == 0
    assert "is gone" not in caplog.text
    await group.close()
