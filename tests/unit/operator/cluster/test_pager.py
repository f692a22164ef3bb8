"""Lists in pages: complete, one object at a time, and with a limit for the text of a response."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from elasticjob_operator.cluster import pager
from elasticjob_operator.cluster.pager import items_of, list_pages
from elasticjob_operator.errors import ClusterError, ClusterUnavailable, RetryLater, TimedOut

LISTS = [
    {"items": [], "metadata": {"resourceVersion": "7"}},
    {"apiVersion": "v1", "items": [{"items": [1]}, {"metadata": {"continue": "x"}}], "kind": "L", "metadata": {"a": 1}},
    {"kind": "L", "metadata": {"continue": "c"}, "items": [{"n": 1}]},
    {"items": None, "metadata": {"remainingItemCount": 3}},
    {},
]


@pytest.mark.parametrize("found", LISTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_items_and_metadata_are_the_same_as_those_of_the_parsed_whole(
    found: dict[str, Any], indent: int | None
) -> None:
    metadata: dict[str, Any] = {}
    assert list(items_of(json.dumps(found, indent=indent), metadata)) == (found.get("items") or [])
    assert metadata == found.get("metadata", {})


class Server:
    """Objects with that many bytes of text."""

    def __init__(self, *sizes: int, page: int = 16) -> None:
        self.sizes = sizes
        self.page = page
        self.interrupted = self.silent = 0
        self.asked: list[int] = []
        self.faults: list[ClusterError] = []
        """Raised instead of each second page."""
        self.busy_above = page
        """A page with more objects takes too long."""

    async def ask(self, query: Mapping[str, str], most: int | None) -> bytes | None:
        """Return one page."""
        first, limit = int(query.get("continue") or 0), int(query["limit"])
        self.asked.append(limit)
        if self.faults and first:
            raise self.faults.pop()
        if self.silent:
            self.silent -= 1
            raise TimedOut("silent")
        if limit > self.busy_above:
            raise TimedOut("busy")
        items = [{"n": first + n, "x": "x" * size} for n, size in enumerate(self.sizes[first : first + limit])]
        end = first + limit
        rest = {"continue": str(end)} if end < len(self.sizes) else {}
        text = json.dumps({"items": items, "metadata": {"resourceVersion": "7", **rest}}).encode()
        return None if most is not None and len(text) > most else text

    async def numbers(self) -> list[int]:
        """Return the numbers of all objects, in the order of the list."""
        listing = list_pages(
            self.ask, page_size=self.page, description="cannot list", on_interrupted=self._interrupt, retry_s=0.0
        )
        return [item["n"] async for items, _ in listing for item in items]

    def _interrupt(self) -> None:
        self.interrupted += 1


async def test_pages_that_are_too_long_are_requested_with_fewer_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "MAX_BYTES", 3_000)
    server = Server(*[10] * 16, *[1_000] * 5, 5_000)
    assert await server.numbers() == list(range(22))
    assert server.asked == [16, 16, 4, 1, 2, 4, 1, 2, 1, 2, 1]


async def test_after_large_objects_pages_grow_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "MAX_BYTES", 3_000)
    server = Server(*[1_000] * 3, *[10] * 60)
    assert await server.numbers() == list(range(63))
    assert server.asked == [16, 4, 1, 2, 4, 8, 16, 16, 16]


@pytest.mark.parametrize("fault", [ClusterUnavailable("refused"), RetryLater("too many requests")])
async def test_an_interrupted_list_begins_again_with_pages_of_the_same_size(fault: ClusterError) -> None:
    server = Server(*[10] * 40)
    server.faults = [fault]
    assert await server.numbers() == [*range(16), *range(40)]
    assert server.asked == [16, 16, 16, 16, 16]
    assert server.interrupted == 1


async def test_a_list_that_took_too_long_begins_again_with_smaller_pages_that_grow() -> None:
    server = Server(*[10] * 40)
    server.faults = [TimedOut("busy")]
    assert await server.numbers() == [*range(16), *range(40)]
    assert server.asked == [16, 16, 10, 10, 10, 10], "not as large as the one that took too long in this list"


async def test_a_list_of_an_overloaded_api_server_completes_with_smaller_pages() -> None:
    server = Server(*[10] * 100, page=200)
    server.busy_above = 40
    assert (await server.numbers())[-100:] == list(range(100))
    assert server.asked == [200, 50, 12, 24, 48, 12, 24, 24, 24, 24]


async def test_pages_are_large_again_after_an_outage() -> None:
    server = Server(*[1] * 2_000, page=200)
    server.silent = 20
    assert await server.numbers() == list(range(2_000))
    assert server.asked[20:] == [10, 20, 40, 80, 160, *[200] * 9]
    assert server.interrupted == 0, "nothing was delivered yet"
