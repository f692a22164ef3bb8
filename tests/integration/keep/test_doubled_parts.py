"""Two nodes publish one part of a step with different files: each node restores one of both, never a mixture."""

from pathlib import Path

import pytest

from testing.waiting import aeventually
from tests.integration.keep.keeper_group import GroupNode, KeeperGroup, keeper_group
from tests.integration.keep.parts import contents

FILES = ("a", "b", "c/d")


def publication(text: str) -> dict[str, bytes]:
    """Return the files of one publication of part 0."""
    return {name: f"{text} {name}".encode() for name in FILES}


async def publish_doubly(group: KeeperGroup, first: dict[str, bytes], second: dict[str, bytes]) -> list[GroupNode]:
    """Let two of four nodes publish part 0, and a third one part 1; none of them keeps for another of both."""
    nodes = [await group.add(slot) for slot in range(4)]
    await group.round(*nodes)  # each keeps for the one two ranks before it
    nodes[0].publish("step-8.0-of-2", first)
    nodes[1].publish("step-8.0-of-2", second)
    nodes[2].publish("step-8.1-of-2", {"part1": b"1"})
    await group.until_committed(group.step(8, 2))
    return nodes


def restored_part(node: GroupNode) -> dict[str, bytes]:
    """Return the files of part 0 that the workers of this node read."""
    assert node.kept is not None
    found = contents(node.kept)
    assert found.pop("part1") == b"1"
    return found


@pytest.mark.parametrize("second", [publication("other"), publication("longer")], ids=["equal sizes", "other sizes"])
async def test_a_step_is_committed_with_both_and_each_node_restores_one_of_them_whole(
    keep_dir: Path, second: dict[str, bytes]
) -> None:
    first = publication("first")
    async with keeper_group(keep_dir) as group:
        nodes = await publish_doubly(group, first, second)
        await group.round(*nodes)
        assert [restored_part(node) for node in nodes[:2]] == [first, second]
        assert all(restored_part(node) in (first, second) for node in nodes)
        await group.lose(nodes[0])
        await group.round(*nodes[1:], await group.add(0))
        assert all(restored_part(node) in (first, second) for node in group.members)
        group.publish(9)
        await group.until_committed(group.step(9))


async def test_other_sizes_are_dropped_where_they_meet_and_the_next_step_is_committed(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(*[await group.add(slot) for slot in range(2)])
        for text, node in zip(("first", "longer"), group.members, strict=True):
            node.publish("step-8.0-of-2", publication(text))
        finder = await aeventually(
            lambda: next((node for node in group.members if node.client.progress.degraded), None), what="it is found"
        )
        assert isinstance(finder, GroupNode)
        assert "part 0 of step 8 was published by two nodes with different files" in finder.client.progress.degraded
        assert "count the parts by RANK and WORLD_SIZE" in finder.client.progress.degraded
        await aeventually(lambda: group.step(8) not in finder.client.holdings, what="its finder drops it")
        group.publish(9)
        good = group.step(9)
        await group.until_committed(good)
        await group.round(*group.members)
        assert [node.kept is not None and node.kept.name for node in group.members] == [str(good)] * 2
