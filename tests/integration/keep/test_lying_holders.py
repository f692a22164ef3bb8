"""A holder or a sender that lies about a part: it is fetched from another holder, and the job goes on."""

import zlib
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.keep.transfer.dialer import random_hex
from elasticjob_agent.keep.transfer.frames import Dead, Message, NoPart, Offer, Sums
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.session import connect, dial
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.keep.history import strike_step
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import keeper_group
from tests.integration.keep.lying_keeper import LyingKeeper
from tests.integration.keep.parts import contents

SIZE = 100_000
FALSE = b"x" * SIZE


def answers(part: KeptPart, true: bytes) -> dict[str, tuple[Message | bytes, ...]]:
    """Return what a holder may send that has not got this part."""
    offer, sums = Offer(part, (("part0", SIZE),)), Sums((zlib.crc32(true),))
    return {
        "nothing": (NoPart(),),
        "the part of another step": (Offer(KeptPart(part.step, 1), (("part0", SIZE),)),),
        "more than fits": (Offer(part, (("part0", 1 << 60),)),),
        "too few bytes": (offer, true[:-1]),
        "other bytes": (offer, FALSE, sums),
    }


@pytest.mark.parametrize("lie", answers(KeptPart.parse("1.a.1.2.0"), b""))
async def test_a_part_that_a_liar_has_not_got_is_fetched_from_another_holder(keep_dir: Path, lie: str) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(*[await group.add(slot) for slot in range(2)])
        step, parts = group.step(10), group.publish(10, SIZE)
        await group.until_committed(step)
        first, second = group.members
        liar, fetcher = await group.add(2, keeper=LyingKeeper), await group.add(3)
        assert isinstance(liar.client, LyingKeeper)
        liar.client.served = answers(KeptPart(step, 0), parts[0]["part0"])[lie]
        sources = {0: [liar.address, first.address], 1: [second.address]}
        assert contents(await fetcher.client.fetch(step, sources, 30.0)) == parts[0] | parts[1]
        assert fetcher.client.restarts == 0


async def test_a_false_list_of_files_costs_its_step_and_no_later_one(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(slot) for slot in range(3)]
        liar = await group.add(3, keeper=LyingKeeper)
        assert isinstance(liar.client, LyingKeeper)
        await group.round(*nodes)
        step = group.step(10)
        group.publish(10)
        await group.until_committed(step)
        connection = connect(nodes[0].address)
        session = dial(connection, liar.client.credentials, Purpose.PUT, random_hex=random_hex)
        session.send(Offer(KeptPart(step, 0), (("another", 1),), step.lineage))
        assert session.receive() == Dead()
        connection.close()
        await aeventually(lambda: step not in nodes[0].client.holdings, what="the step is dropped there")
        await aeventually(lambda: "published by two nodes with different files" in nodes[0].client.progress.degraded)
        with pytest.raises(RequestRefused):  # that node takes no part of the step any more
            await group.round(*nodes)
        group.history = strike_step(group.history, step)
        await group.round(*nodes)
        assert [node.kept for node in nodes] == [None] * 3
        group.publish(20)
        await group.until_committed(group.step(20))
