"""Lists and watches of one API server, namespace by namespace; a forbidden namespace does not delay the others.

An operator of several namespaces has a Role in each, and a Role may be deleted, alone or with its namespace. The caches
of that namespace then remain unchanged, as during an outage of the API server. An operator with one list waits instead.
"""

import contextlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field

from elasticjob_api import constants
from elasticjob_operator.cluster.api_errors import KindNotFound, error_from_response
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kinds import KINDS, path_of, selected
from elasticjob_operator.cluster.log_limit import LogRateLimiter
from elasticjob_operator.cluster.pager import PAGE_SIZE, list_pages
from elasticjob_operator.errors import ClusterError, Forbidden
from elasticjob_operator.model.cluster_interface import Object, Resource

_REQUIRED = (Resource.JOB, Resource.POD)
_WATCH_S = 300
"""Time after which the API server ends a watch, and the operator begins another."""

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


class ListWatch:
    """Whole objects of one API server, one at a time; `namespaces` empty means all of them."""

    def __init__(
        self,
        connection: Connection,
        namespaces: tuple[str, ...] = (),
        *,
        page_size: int = PAGE_SIZE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self.namespaces = namespaces or ("",)
        """The watched namespaces; an empty name means all."""
        self._page_size = page_size
        self._listed: dict[Resource, set[str]] = defaultdict(set)
        self._log_limit = LogRateLimiter(clock)

    async def require_served(self) -> None:
        """Raise ClusterError unless jobs and pods can be listed and clients can discover ElasticJobs."""
        await self._require_one()
        # kubectl and the SDK need the discovery documents, not only the path of the resource.
        groups = (await self._connection.call("GET", "/apis"))["groups"]
        resources = (await self._connection.call("GET", f"/apis/{constants.API_VERSION}"))["resources"]
        if not any(g["name"] == constants.GROUP for g in groups) or not any(
            r["name"] == constants.PLURAL for r in resources
        ):
            raise ClusterError(f"the API server serves {constants.PLURAL}.{constants.GROUP}, but does not list it yet")

    async def _require_one(self) -> None:
        """Raise Forbidden unless jobs and pods of at least one namespace can be listed."""
        refusals = list[Forbidden]()
        for space in self.namespaces:
            try:
                for resource in _REQUIRED:
                    await self._fetch_page(resource, space, {"limit": "1"}, None)
            except Forbidden as error:
                refusals.append(error)
        if len(refusals) == len(self.namespaces):
            raise refusals[0]

    def has_listed(self, namespace: str) -> bool:
        """Return whether jobs and pods of the namespace were listed; before that, a job would seem to have no pods."""
        space = "" if self.namespaces == ("",) else namespace
        return all(space in self._listed[resource] for resource in _REQUIRED)

    async def list(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object, None]:
        """Return all objects, as a list by quorum shows them; `result` is filled meanwhile."""
        for space in self.namespaces:
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
                if len(self.namespaces) == 1:
                    raise
                raise _NamespaceForbiddenError(str(error)) from error

        def interrupt() -> None:
            result.was_interrupted = True

        kind = {"apiVersion": KINDS[resource].api_version, "kind": KINDS[resource].kind}  # items of a list lack it
        listing = list_pages(
            fetch, page_size=self._page_size, description=f"cannot list {resource.value}", on_interrupted=interrupt
        )
        async with contextlib.aclosing(listing):
            async for items, metadata in listing:
                for item in items:
                    yield {**kind, **item}
                result.versions[space] = str(metadata.get("resourceVersion") or "")

    async def _fetch_page(
        self, resource: Resource, namespace: str, query: Mapping[str, str], most: int | None
    ) -> bytes | None:
        """Return the response to a query in a namespace as text; None if it has more bytes than `most`."""
        try:
            path = path_of(resource, namespace)
            return await self._connection.send_at_most("GET", path, None, most, query=selected(resource, query))
        except KindNotFound as error:
            crd = f"{constants.PLURAL}.{constants.GROUP}"
            raise ClusterError(f"the CRD {crd} is not installed; kubectl apply -f crds/elasticjob.yaml") from error

    async def watch(self, resource: Resource, namespace: str, version: str) -> AsyncGenerator[tuple[str, Object], None]:
        """Return the events of one watch connection: CONNECTED, then each change since `version`.

        Types of events are those of the API, BOOKMARK included. Without a version each existing object comes first, as
        ADDED. The generator ends when the API server ends the watch.

        Raises:
            ResourceExpired: the API server no longer knows the version.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_S)}
        query |= {"resourceVersion": version} if version else {}
        path = path_of(resource, namespace)
        async with self._connection.stream(path, selected(resource, query)) as lines:
            yield "CONNECTED", {}
            async for line in lines:
                yield _parse_event(path, line)


def _parse_event(path: str, line: bytes) -> tuple[str, Object]:
    """Return the type and the object of an event; an event of an error is raised."""
    event = json.loads(line)
    kind, obj = str(event["type"]), event["object"]
    if kind == "ERROR":
        raise error_from_response(int(obj.get("code", 500)), f"watching {path}", json.dumps(obj).encode())
    return kind, obj
