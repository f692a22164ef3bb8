"""Lists of an API server, page by page, with little of a list in memory at a time.

A request limits the number of objects of a page. But an object may be 1.5 MB of text, and twenty times that once it is
parsed. So a response that grows too long is not read to its end, and the page is requested again with fewer objects.
The pages after it grow again. Objects of a response are parsed one at a time.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

from elasticjob_operator.cluster.retry import RETRY_S, retry_until_success
from elasticjob_operator.errors import ClusterError, TimedOut
from elasticjob_operator.model.cluster_interface import Object

PAGE_SIZE = 200
"""Objects in one page of a list, so that neither side holds ten thousand pods as text."""
MAX_BYTES = 8 << 20
"""Bytes of one response, unless it has a single object."""
_REDUCTION = 4
_MIN_AFTER_TIMEOUT = 10
"""Least objects of a page after a timeout, which may have other causes than the size of the page."""

_decoder = json.JSONDecoder()

FetchPage = Callable[[Mapping[str, str], int | None], Awaitable[bytes | None]]
"""Return the response to a query as text; None if it has more bytes than the second argument."""


async def list_pages(
    fetch_page: FetchPage,
    *,
    page_size: int = PAGE_SIZE,
    description: str,
    on_interrupted: Callable[[], None],
    retry_s: float = RETRY_S,
) -> AsyncGenerator[tuple[Iterator[Object], Object], None]:
    """Return the objects of each page, and the page's metadata, which is empty until its objects are consumed.

    After an error the list begins again, because a continue token may have expired. An object may then occur twice, and
    one that occurred may no longer exist. `on_interrupted` is called in this case.
    """
    pager = _Pager(fetch_page, page_size, on_interrupted)
    while True:
        text = await retry_until_success(pager.next, description=description, retry_s=retry_s)
        metadata: Object = {}
        yield items_of(text, metadata), metadata
        pager.continue_token = str(metadata.get("continue") or "")
        if not pager.continue_token:
            return


class _Pager:
    """The position in a list, and the number of objects to request next."""

    continue_token = ""
    """Where the next page begins; empty at the beginning of the list."""

    def __init__(self, fetch_page: FetchPage, page_size: int, on_interrupted: Callable[[], None]) -> None:
        self._fetch_page = fetch_page
        self._limit = self._max_limit = page_size
        self._on_interrupted = on_interrupted

    async def next(self) -> str:
        """Return the next page, with fewer objects if the response is too long; the limit then doubles again."""
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
            if self.continue_token:  # earlier, smaller pages succeeded: with this size the list would never end
                self._max_limit = max(min(self._limit, _MIN_AFTER_TIMEOUT), self._limit // 2)
            self._limit = _reduce_limit(self._limit, _MIN_AFTER_TIMEOUT)
        self.continue_token = ""


def _reduce_limit(limit: int, least: int) -> int:
    return max(min(limit, least), limit // _REDUCTION)


def items_of(text: str, metadata: Object) -> Iterator[Object]:
    """Return the items of a list, each parsed on demand; after the last one, `metadata` has the list's metadata."""
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
    """Return the position of the next token after `mark`."""
    at = _space(text, at)
    if text[at] != mark:
        raise ValueError(f"{text[at]!r} instead of {mark!r} at {at}")
    return _space(text, at + 1)


def _next(text: str, at: int) -> int:
    """Return the position of the next element, or of the closing bracket."""
    at = _space(text, at)
    return _space(text, at + 1) if text[at] == "," else at


def _space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
