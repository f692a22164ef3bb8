"""Run a script that shows one line, cold and warm, and return what each rank shows."""

from testing.waiting import aeventually
from tests.integration.warm_start.warm_node import WarmNode

# The recorder writes a module when the next import begins.
SHOW = "\nimport sched\nprint('shown', os.environ['ROUND'], os.environ['RANK'], {}, flush=True)\n"


async def shown(node: WarmNode) -> list[str]:
    """Return what each worker of this round shows, by rank."""
    await node.ran()
    start = f"shown {node.round} "
    await aeventually(lambda: len(_lines(node, start)) == node.nproc, what=f"output; {node.console.data!r}")
    return [line.removeprefix(start).partition(" ")[2] for line in sorted(_lines(node, start))]


def _lines(node: WarmNode, start: str) -> list[str]:
    return [line for line in node.console.lines if line.startswith(start)]


async def shown_cold_and_warm(node: WarmNode, imports: str, expression: str) -> tuple[list[str], list[str]]:
    """Return what two cold workers show, the first of them recorded, and what two warm ones show."""
    node.script(imports + SHOW.format(expression))
    await node.start()
    cold = await shown(node)
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    return cold, await shown(node)


async def check_same_in_each_worker(node: WarmNode, code: str, expression: str) -> None:
    """Check that this expression about an installed package `worker` has the same value in cold and warm workers."""
    node.package("worker", code)
    cold, warm = await shown_cold_and_warm(node, "import worker, fractions", expression)
    assert warm == cold


async def rounds(node: WarmNode, imports: str, expression: str) -> list[str]:
    """Return what two ranks show in two warm rounds."""
    _, first = await shown_cold_and_warm(node, imports, expression)
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    return [*first, *await shown(node)]
