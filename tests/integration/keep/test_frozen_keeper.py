"""A keeper is frozen while a script publishes: all steps are held afterwards, and the next commit makes room."""

import signal
from pathlib import Path

from testing.waiting import aeventually
from tests.integration.keep.keeper_group import GroupNode, keeper_group
from tests.integration.keep.parts import contents

MIB = 1 << 20
NEWEST = 6


def publish(number: int, *nodes: GroupNode) -> None:
    """Publish the same whole step at each node."""
    for node in nodes:
        node.publish(f"step-{number}", {"state": bytes([number]) * MIB})


async def test_a_full_volume_after_a_frozen_keeper_has_room_again_with_the_first_commit_of_the_next_round(
    keep_dir: Path,
) -> None:
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(slot, size_limit=NEWEST * MIB + MIB // 2) for slot in (0, 1)]
        await group.round(*nodes)
        publish(1, *nodes)
        await group.until_committed(group.step(1, parts=1))
        nodes[0].kill(signal.SIGSTOP)
        for number in range(2, NEWEST + 1):
            publish(number, *nodes)
        newest = group.step(NEWEST, parts=1)
        nodes[0].kill()
        await group.round(*nodes)
        assert nodes[0].kept is not None
        assert contents(nodes[0].kept) == {"state": bytes([NEWEST]) * MIB}
        await group.until_committed(newest)
        await aeventually(lambda: set(nodes[0].client.holdings) == {newest}, what="the older steps go")
        publish(NEWEST + 1, *nodes)
        await group.until_committed(group.step(NEWEST + 1, parts=1))
        assert not nodes[0].client.progress.degraded
