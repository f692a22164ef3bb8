"""Each row of the decision table: the script runs once a rank, warm or cold, and the log has the reason once."""

from collections.abc import Callable

from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


async def test_a_restart_is_warm(node: WarmNode, sentences: Sentences) -> None:
    node.script()
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()
    for _ in range(3):
        assert await node.restart() == [True, True]
        await node.ran()
        await node.forked_ahead()
    assert (node.starter.reason, sentences()) == ("", [])
