"""Lists in pages: whole, one object at a time, and never more text of an answer than is bearable."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from elasticjob_operator.cluster import listing, patience
from elasticjob_operator.cluster.listing import items_of, pages
from elasticjob_operator.errors import ClusterUnavailable

LISTS = [
    {"items": [], "metadata": {"resourceVersion": "7"}},
    {"apiVersion": "v1", "items": [{"items": [1]}, {"metadata": {"continue": "x"}}], "kind": "L", "metadata": {"a": 1}},
    {"kind": "L", "metadata": {"continue": "c"}, "items": [{"n": 1}]},
    {"items": None, "metadata": {"remainingItemCount": 3}},
    {},
]


@pytest.mark.parametrize("found", LISTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_items_and_metadata_are_read_as_the_whole_would_be(found: dict[str, Any], indent: int | None) -> None:
    metadata: dict[str, Any] = {}
    assert list(items_of(json.dumps(found, indent=indent), metadata)) == (found.get("items") or [])
    assert metadata == found.get("metadata", {})


class Server:
    """Objects of so many bytes of text."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.asked: list[int] = []
        self.faults = 0

    async def ask(self, query: Mapping[str, str], most: int | None) -> bytes | None:
        """One page."""
        if self.faults and "continue" in query:
            self.faults -= 1
            raise ClusterUnavailable("away")
        first, limit = int(query.get("continue") or 0), int(query["limit"])
        self.asked.append(limit)
        items = [{"n": first + n, "x": "x" * size} for n, size in enumerate(self.sizes[first : first + limit])]
        end = first + limit
        rest = {"continue": str(end)} if end < len(self.sizes) else {}
        text = json.dumps({"items": items, "metadata": {"resourceVersion": "7", **rest}}).encode()
        return None if most is not None and len(text) > most else text

    async def numbers(self) -> list[int]:
        """Of all objects, as they come."""
        return [item["n"] async for items, _ in pages(self.ask, page=16, what="cannot list") for item in items]


async def test_pages_that_are_too_long_are_asked_for_with_fewer_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_BYTES", 3_000)
    server = Server(*[10] * 16, *[1_000] * 5, 5_000)
    assert await server.numbers() == list(range(22))
    assert server.asked == [16, 16, 4, 1, 1, 1, 1, 1, 1]


async def test_a_list_that_is_interrupted_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    server = Server(*[10] * 20)
    server.faults = 1
    assert await server.numbers() == [*range(16), *range(20)]
    assert server.asked == [16, 10, 10], "with fewer objects, since it may have taken too long"
