"""Losing a node where the lease would take an hour: only the link can have told."""

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
async def crew(connect: Callable[[], Etcd], prefix: str) -> AsyncIterator[MemberGroup]:
    """Three members with a lease of an hour."""
    made = MemberGroup(connect, prefix, SpecRecord(min=1, max=3, desired=3), lease_ttl_s=3600.0)
    made.join(3)
    await made.running(1)
    yield made
    await made.close()


async def linked(crew: MemberGroup) -> GroupMember:
    """Wait for all links; the closer."""
    closer = await crew.leader()
    others = [mate for mate in crew.group_members if mate is not closer]
    await aeventually(lambda: all(mate.member._listener._links for mate in others), within_s=20, what="links")
    return closer


async def test_a_member_that_dies_is_found_by_its_link(crew: MemberGroup) -> None:
    closer = await linked(crew)
    victim, *others = [mate for mate in crew.group_members if mate is not closer]
    gone = victim.member.session
    assert gone is not None
    await victim.crash()
    world = await crew.running(2, closer, *others)
    assert (world.cause, world.node_losses) == (Cause.NODE_LOST, 1)
    assert (await crew.view()).tombstones[gone.me.member].reason is TombstoneReason.REFUSED


async def test_a_closer_that_dies_is_found_by_its_members(crew: MemberGroup) -> None:
    closer = await linked(crew)
    others = [mate for mate in crew.group_members if mate is not closer]
    await closer.crash()
    world = await crew.running(2, *others)
    assert (world.cause, world.node_losses) == (Cause.NODE_LOST, 1)


async def test_two_that_die_at_once_one_of_them_the_closer_are_both_known(crew: MemberGroup) -> None:
    """The next closer never had a link to the other, but the one before it had."""
    closer = await linked(crew)
    victim, survivor = [mate for mate in crew.group_members if mate is not closer]
    await asyncio.gather(closer.crash(), victim.crash())
    world = await crew.running(2, survivor)
    assert (world.cause, world.node_losses, len(world.members)) == (Cause.NODE_LOST, 1, 1)


async def test_who_follows_a_closer_that_left_in_order_takes_nobody_for_gone_who_refuses(crew: MemberGroup) -> None:
    closer = await linked(crew)
    deaf, other = [mate for mate in crew.group_members if mate is not closer]
    assert closer.member._election._loop is not None
    await closer.member._election._loop._links.close()
    await deaf.member._listener.close()  # its process lives, and its port refuses
    closer.member.request_leave()
    await crew.running(2, deaf, other)
    assert [gone.reason for gone in (await crew.view()).tombstones.values()] == [TombstoneReason.LEFT]


async def test_a_closer_that_stops_closing_and_lives_is_not_evicted(crew: MemberGroup) -> None:
    closer = await linked(crew)
    assert closer.member._election._loop is not None
    await closer.member._election._loop._links.close()
    others = [mate for mate in crew.group_members if mate is not closer]
    await aeventually(lambda: not any(mate.member._listener._links for mate in others), within_s=20)
    await aeventually(lambda: all(_has_asked(mate) for mate in others), within_s=20, what="all have asked")
    view = await crew.view()
    assert len(view.nodes) == 3
    assert view.tombstones == {}


def _has_asked(mate: GroupMember) -> bool:
    asking = mate.member._leader_monitor._probe_task
    return asking is not None and asking.done()


class _HearsTheEndLast(InMemoryEtcd):
    """Whoever closes rounds, and so watches everything, is told of the end last of all, as may be under load."""

    def __init__(self, store: InMemoryStore, told: asyncio.Event) -> None:
        super().__init__(store)
        self._told = told
        self._closes = False

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        self._closes |= prefix.endswith("/c/")
        async for batch in super().watch(prefix, start_revision=start_revision):
            worlds = [event.kv.value for event in batch.events if event.kv.key.endswith("/c/ctl/world")]
            if self._closes and any(decode_state(world).state.is_final for world in worlds):
                await self._told.wait()
            yield batch


async def test_a_closer_that_has_ended_the_job_takes_nobody_who_goes_for_lost(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, told = InMemoryStore(min_ttl_s=1.0), asyncio.Event()
    crew = MemberGroup(
        lambda: _HearsTheEndLast(store, told), prefix, SpecRecord(min=3, max=3, desired=3), lease_ttl_s=3600.0
    )
    crew.join(3)
    await crew.running(1)
    closer = await linked(crew)
    links = [task for task in asyncio.all_tasks() if task.get_name().startswith("link to ")]
    for mate in crew.group_members:
        mate.workers.finish()
    assert [await mate.end() for mate in crew.group_members if mate is not closer] == [0, 0]
    await asyncio.wait(links, timeout=20)
    told.set()
    assert await closer.end() == 0
    assert "is gone" not in caplog.text
    await crew.close()
