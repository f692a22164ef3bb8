"""Losing a node where the lease would take an hour: only the link can have told."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from elasticjob_api.records import GoneReason, Slots
from elasticjob_api.world import Cause
from elasticjob_etcd.protocol import Etcd
from tests.faults.waiting import aeventually
from tests.integration.rendezvous.crew import Crew, Mate


@pytest.fixture
async def crew(connect: Callable[[], Etcd], prefix: str) -> AsyncIterator[Crew]:
    """Three members with a lease of an hour."""
    made = Crew(connect, prefix, Slots(min=1, max=3, desired=3), lease_ttl_s=3600.0)
    made.join(3)
    await made.running(1)
    yield made
    await made.close()


async def linked(crew: Crew) -> Mate:
    """Wait for all links; the closer."""
    closer = await crew.closer()
    others = [mate for mate in crew.mates if mate is not closer]
    await aeventually(lambda: all(mate.member._listener._links for mate in others), within_s=20, what="links")
    return closer


async def test_a_member_that_dies_is_found_by_its_link(crew: Crew) -> None:
    closer = await linked(crew)
    victim, *others = [mate for mate in crew.mates if mate is not closer]
    gone = victim.member.stay
    assert gone is not None
    await victim.crash()
    world = await crew.running(2, closer, *others)
    assert (world.cause, world.losses) == (Cause.NODE_LOST, 1)
    assert (await crew.view()).gone[gone.me.member].reason is GoneReason.REFUSED


async def test_a_closer_that_dies_is_found_by_its_members(crew: Crew) -> None:
    closer = await linked(crew)
    others = [mate for mate in crew.mates if mate is not closer]
    await closer.crash()
    world = await crew.running(2, *others)
    assert (world.cause, world.losses) == (Cause.NODE_LOST, 1)


async def test_two_that_die_at_once_one_of_them_the_closer_are_both_known(crew: Crew) -> None:
    """The next closer never had a link to the other, but the one before it had."""
    closer = await linked(crew)
    victim, survivor = [mate for mate in crew.mates if mate is not closer]
    await asyncio.gather(closer.crash(), victim.crash())
    world = await crew.running(2, survivor)
    assert (world.cause, world.losses, len(world.members)) == (Cause.NODE_LOST, 1, 1)


async def test_who_follows_a_closer_that_left_in_order_takes_nobody_for_gone_who_refuses(crew: Crew) -> None:
    closer = await linked(crew)
    deaf, other = [mate for mate in crew.mates if mate is not closer]
    assert closer.member._election._loop is not None
    await closer.member._election._loop._links.close()
    await deaf.member._listener.close()  # its process lives, and its port refuses
    closer.member.request_leave()
    await crew.running(2, deaf, other)
    assert [gone.reason for gone in (await crew.view()).gone.values()] == [GoneReason.LEFT]


async def test_a_closer_that_stops_closing_and_lives_is_not_evicted(crew: Crew) -> None:
    closer = await linked(crew)
    assert closer.member._election._loop is not None
    await closer.member._election._loop._links.close()
    others = [mate for mate in crew.mates if mate is not closer]
    await aeventually(lambda: not any(mate.member._listener._links for mate in others), within_s=20)
    await aeventually(lambda: all(_has_asked(mate) for mate in others), within_s=20, what="all have asked")
    view = await crew.view()
    assert len(view.nodes) == 3
    assert view.gone == {}


def _has_asked(mate: Mate) -> bool:
    asking = mate.member._closer_mind._asking
    return asking is not None and asking.done()
