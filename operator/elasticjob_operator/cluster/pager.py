"""Lists of an API server, page by page: however large its objects are, little of a list is in memory at a time.

A page is asked for by a number of objects, and an object may have 1.5 MB of text, which is twenty times as much once it
is parsed. So an answer that grows too long is not read to its end, and the same page is asked for with fewer objects;
the pages after it grow again. Of an answer one object is parsed at a time.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

from elasticjob_operator.cluster.retry import RETRY_S, retry_until_success
from elasticjob_operator.errors import ClusterError, TimedOut
from elasticjob_operator.model.cluster_interface import Object

PAGE_SIZE = 200
"""Objects in one answer of a list: neither side should hold ten thousand pods as text."""
MAX_BYTES = 8 << 20
"""Of one answer, unless it has one object alone."""
_REDUCTION = 4
_MIN_AFTER_TIMEOUT = 10
"""A page does not shrink below this because an answer took too long: that may have any reason."""

_decoder = json.JSONDecoder()

FetchPage = Callable[[Mapping[str, str], int | None], Awaitable[bytes | None]]
"""One answer to this query as text; None if it is longer than so many bytes."""


async def list_pages(
    fetch_page: FetchPage,
    *,
    page_size: int = PAGE_SIZE,
    what: str,
    on_interrupted: Callable[[], None],
    retry_s: float = RETRY_S,
) -> AsyncGenerator[tuple[Iterator[Object], Object], None]:
    """Give the objects of each page, and the page's metadata, which is empty until they are taken.

    After a fault it begins again, since what a page continues may be forgotten: an object may come twice, and one that
    came may be gone. Then `on_interrupted` is called.
    """
    asking = _Pager(fetch_page, page_size, on_interrupted)
    while True:
        text = await retry_until_success(asking.next, description=what, retry_s=retry_s)
        metadata: Object = {}
        yield items_of(text, metadata), metadata
        asking.continue_token = str(metadata.get("continue") or "")
        if not asking.continue_token:
            return


class _Pager:
    """Where a list is, and how many objects are asked for next."""

    continue_token = ""
    """The page before the next one ends here; empty at the beginning."""

    def __init__(self, fetch_page: FetchPage, page_size: int, on_interrupted: Callable[[], None]) -> None:
        self._fetch_page = fetch_page
        self._limit = self._max_limit = page_size
        self._on_interrupted = on_interrupted

    async def next(self) -> str:
        """The next page, of as many objects as go well; the one after it may have twice as many."""
        try:
            while (data := await self._fetch_page(self._query(), MAX_BYTES if self._limit > 1 else None)) is None:
                self._limit = _reduce_limit(self._limit, 1)
        except ClusterError as error:
            self._restart(too_long=isinstance(error, TimedOut))
            raise
        self._limit = min(self._max_limit, 2 * self._limit)
        return data.decode()

    def _query(self) -> dict[str, str]:
        query = {"limit": str(self._limit)}
        return {**query, "continue": self.continue_token} if self.continue_token else query

    def _restart(self, *, too_long: bool) -> None:
        if self.continue_token:
            self._on_interrupted()
        if too_long:
            if self.continue_token:  # smaller ones went well: this list would never end if it tried that again
                self._max_limit = max(min(self._limit, _MIN_AFTER_TIMEOUT), self._limit // 2)
            self._limit = _reduce_limit(self._limit, _MIN_AFTER_TIMEOUT)
        self.continue_token = ""


def _reduce_limit(limit: int, least: int) -> int:
    return max(min(limit, least), limit // _REDUCTION)


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
