"""During the imports of a zygote, Python's garbage collector only looks at new objects: nothing sees a difference."""

import pytest

from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

_TUNING = """
import gc
from gc import get_threshold
before = gc.isenabled(), gc.get_threshold(), get_threshold()
{change}
after = gc.isenabled(), get_threshold()
"""
_COUNTING = """
import gc
def count():
    return gc.get_stats()[1]['collections'] + gc.get_stats()[2]['collections']
def collections():
    before = count()
    kept = [[] for _ in range(100_000)]
    return count() - before
at_import = collections()
"""
_GARBAGE = """
import weakref
class A:
    pass
it = A()
it.it = it
reference = weakref.ref(it)
del it
"""


@pytest.mark.parametrize(
    "change",
    [
        "pass",
        "gc.set_threshold(gc.get_threshold()[0] * 10)",
        "gc.set_threshold(0)",
        "gc.set_threshold(123)",
        "gc.set_threshold(123, 4)",
        "gc.set_threshold(*gc.get_threshold())",
        "gc.disable()",
        "gc.disable(); gc.enable()",
        "gc.get_threshold = print",
    ],
)
async def test_imports_see_a_running_collector_and_leave_it_as_they_set_it(node: WarmNode, change: str) -> None:
    node.package("tuning", _TUNING.format(change=change))
    state = (
        "gc.isenabled(), tuning.get_threshold(), gc.get_threshold, tuning.get_threshold, tuning.before, tuning.after"
    )
    cold, warm = await shown_cold_and_warm(node, "import gc, tuning", state)
    assert warm == cold


async def test_older_generations_are_not_collected_during_the_imports_and_are_in_the_worker(node: WarmNode) -> None:
    node.package("counting", _COUNTING)
    cold, warm = await shown_cold_and_warm(
        node, "import counting", "counting.at_import > 0, counting.collections() > 0"
    )
    assert (cold, warm) == (["True True"] * 2, ["False True"] * 2)


async def test_garbage_of_imports_is_collected_before_the_fork(node: WarmNode) -> None:
    node.package("garbage", _GARBAGE)
    _, warm = await shown_cold_and_warm(node, "import garbage", "garbage.reference()")
    assert warm == ["None"] * 2
