"""Lists of an API server, page by page: however large its objects are, little of a list is in memory at a time.

A page is asked for by a number of objects, and an object may have 1.5 MB of text, which is twenty times as much once it
is parsed. So an answer that grows too long is not read to its end, and the same page is asked for with fewer objects;
and of an answer one object is parsed at a time.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

from elasticjob_operator.cluster.patience import until_it_works
from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.errors import ClusterError

PAGE = 200
"""Objects in one answer of a list: neither side should hold ten thousand pods as text."""
MOST_BYTES = 8 << 20
"""Of one answer, unless it has one object alone."""
_FEWER = 4
_FEW = 10
"""A page does not shrink below this because an API server is away: that may have any reason."""

_decoder = json.JSONDecoder()

Ask = Callable[[Mapping[str, str], int | None], Awaitable[bytes | None]]
"""One answer to this query as text; None if it is longer than so many bytes."""


async def pages(ask: Ask, *, page: int = PAGE, what: str) -> AsyncGenerator[tuple[Iterator[Object], Object], None]:
    """Give the objects of each page, and the page's metadata, which is empty until they are taken.

    After a fault it begins again, since what a page continues may be forgotten: an object may come twice.
    """
    query = {"limit": str(page)}
    while True:
        text = await until_it_works(lambda: _page(ask, query), what=what)
        metadata: Object = {}
        yield items_of(text, metadata), metadata
        query["continue"] = str(metadata.get("continue") or "")
        if not query["continue"]:
            return


async def _page(ask: Ask, query: dict[str, str]) -> str:
    """Return the answer; `query` asks for fewer objects from then on when they were too large."""
    try:
        while (data := await ask(query, MOST_BYTES if query["limit"] != "1" else None)) is None:
            query["limit"] = _fewer(query["limit"], 1)
    except ClusterError:
        query.pop("continue", None)
        query["limit"] = _fewer(query["limit"], _FEW)  # it may have taken an API server that is busy too long
        raise
    return data.decode()


def _fewer(limit: str, least: int) -> str:
    return str(max(min(int(limit), least), int(limit) // _FEWER))


def items_of(text: str, metadata: Object) -> Iterator[Object]:
    """Parse the items of a list, each when it is asked for; after the last one `metadata` has what the list has."""
    at = _after(text, 0, "{")
    while text[at] != "}":
        name, at = _decoder.raw_decode(text, at)
        at = _after(text, at, ":")
        if name == "items" and text[at] == "[":
            at = _after(text, at, "[")
            while text[at] != "]":
                item, at = _decoder.raw_decode(text, at)
                yield item
                del item  # before the next one is parsed
                at = _next(text, at)
            at += 1
        else:
            value, at = _decoder.raw_decode(text, at)
            metadata |= value if name == "metadata" else {}
        at = _next(text, at)


def _after(text: str, at: int, mark: str) -> int:
    """Where something begins after `mark`."""
    at = _space(text, at)
    if text[at] != mark:
        raise ValueError(f"{text[at]!r} where {mark!r} should be, at {at}")
    return _space(text, at + 1)


def _next(text: str, at: int) -> int:
    """Where the next one begins, or the end of them is."""
    at = _space(text, at)
    return _space(text, at + 1) if text[at] == "," else at


def _space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
