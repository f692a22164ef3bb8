"""The free places that imports leave in the memory of a zygote: no worker copies a page to use them."""

from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

_HOLES = """
many = [bytes(40) for _ in range(8000)]
kept = many[::16]
del many
def pages(objects):
    return {id(each) >> 12 for each in objects}
def shared():
    return len(pages(kept) & pages([bytes(40) for _ in range(3000)]))
"""


async def test_new_objects_of_a_worker_lie_on_new_pages(node: WarmNode) -> None:
    node.package("holes", _HOLES)
    cold, warm = await shown_cold_and_warm(node, "import holes", "holes.shared() > 20")
    assert (cold, warm) == (["True"] * 2, ["False"] * 2)
