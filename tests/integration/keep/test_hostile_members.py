"""A member that claims parts which it does not have: its job restores an older step, with a clear error."""

from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.rendezvous.protocol.keep.history import strike_step
from elasticjob_api.kept_steps import KeptStep
from tests.integration.keep.keeper_group import GroupNode, KeeperGroup, keeper_group


async def commit_a_step(group: KeeperGroup, count: int) -> tuple[list[GroupNode], KeptStep]:
    """Return so many nodes of a round, and the step that they have committed."""
    nodes = [await group.add(slot) for slot in range(count)]
    await group.round(*nodes)
    group.publish(1)
    await group.until_committed(group.step(1))
    return nodes, group.step(1)


async def test_a_step_that_is_whole_by_a_false_claim_is_not_restored_and_an_older_one_is(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        nodes, committed = await commit_a_step(group, 3)
        claimed = group.step(2)
        for index, node in enumerate(nodes[:2]):
            node.publish(f"step-2.{index}-of-3", {f"part{index}": b"x"})
        nodes[2].claimed[claimed] = frozenset({2})
        with pytest.raises(RequestRefused, match=f"no holder could send part {claimed}.2"):
            await group.round(*nodes)
        # The member goes on with its claim. The round after the failed restore has struck the step.
        group.history = strike_step(group.history, claimed)
        await group.round(*nodes)
        assert [node.kept is not None and node.kept.name for node in nodes] == [str(committed)] * 3
        group.publish(3)
        await group.until_committed(group.step(3))


async def test_a_claim_of_a_step_that_no_member_has_ends_in_the_committed_one(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        nodes, committed = await commit_a_step(group, 2)
        claimed = group.step(9)
        nodes[1].claimed[claimed] = frozenset({0, 1})
        with pytest.raises(RequestRefused):
            await group.round(*nodes)
        group.history = strike_step(group.history, claimed)
        await group.round(*nodes)
        assert [node.kept is not None and node.kept.name for node in nodes] == [str(committed)] * 2
