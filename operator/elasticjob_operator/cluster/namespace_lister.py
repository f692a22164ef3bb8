"""Lists of a kind, namespace by namespace; a forbidden namespace does not delay the others.

An operator of several namespaces has a Role in each, and a Role may be deleted, alone or with its namespace. The caches
of that namespace then remain unchanged, as during an outage of the API server. An operator with one list waits instead.
"""

import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from elasticjob_operator.cluster.log_limit import LogRateLimiter
from elasticjob_operator.cluster.pager import list_pages
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.model.cluster_interface import Object, Resource

FetchNamespacePage = Callable[[Resource, str, Mapping[str, str], int | None], Awaitable[bytes | None]]
"""Return the response to a query in a namespace as text; None if it has more bytes than the last argument."""
_REQUIRED = (Resource.JOB, Resource.POD)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ListResult:
    """The outcome of one list of all namespaces."""

    versions: dict[str, str] = field(default_factory=dict)
    """resourceVersions of the lists, by namespace."""
    forbidden: set[str] = field(default_factory=set)
    """Namespaces that were not listed, or not to the end."""
    was_interrupted: bool = False
    """Whether a list began again; objects of its first attempt may have been deleted."""


class _NamespaceForbiddenError(Exception):
    """A list of one of several namespaces is forbidden; no ClusterError, because it is not retried."""


class NamespaceLister:
    """Lists objects of these namespaces from one API server."""

    def __init__(
        self, fetch_page: FetchNamespacePage, namespaces: tuple[str, ...], *, page_size: int, clock: Callable[[], float]
    ) -> None:
        self._fetch_page = fetch_page
        self._namespaces = namespaces
        self._page_size = page_size
        self._listed: dict[Resource, set[str]] = defaultdict(set)
        self._log_limit = LogRateLimiter(clock)

    async def require_one(self) -> None:
        """Raise Forbidden unless jobs and pods of at least one namespace can be listed."""
        refusals = list[Forbidden]()
        for space in self._namespaces:
            try:
                for resource in _REQUIRED:
                    await self._fetch_page(resource, space, {"limit": "1"}, None)
            except Forbidden as error:
                refusals.append(error)
        if len(refusals) == len(self._namespaces):
            raise refusals[0]

    def has_listed(self, namespace: str) -> bool:
        """Return whether jobs and pods of the namespace were listed; before that, a job would seem to have no pods."""
        space = "" if self._namespaces == ("",) else namespace
        return all(space in self._listed[resource] for resource in _REQUIRED)

    async def list_all(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object, None]:
        """Return all objects as the API server lists them; `result` is filled meanwhile."""
        for space in self._namespaces:
            try:
                async with contextlib.aclosing(self._list_namespace(resource, space, result)) as items:
                    async for item in items:
                        yield item
            except _NamespaceForbiddenError as error:
                result.versions.pop(space, None)
                result.forbidden.add(space)
                if self._log_limit.allow(f"{resource.value} {space}"):
                    log.warning("cannot list %s of %s, its cache remains unchanged: %s", resource.value, space, error)
            else:
                self._listed[resource].add(space)

    async def _list_namespace(self, resource: Resource, space: str, result: ListResult) -> AsyncGenerator[Object, None]:
        async def fetch(query: Mapping[str, str], most: int | None) -> bytes | None:
            try:
                return await self._fetch_page(resource, space, query, most)
            except Forbidden as error:
                if len(self._namespaces) == 1:
                    raise
                raise _NamespaceForbiddenError(str(error)) from error

        def interrupt() -> None:
            result.was_interrupted = True

        listing = list_pages(
            fetch, page_size=self._page_size, description=f"cannot list {resource.value}", on_interrupted=interrupt
        )
        async with contextlib.aclosing(listing):
            async for items, metadata in listing:
                for item in items:
                    yield item
                result.versions[space] = str(metadata.get("resourceVersion") or "")
