"""The API server as a `protocol.Cluster`: six calls over plain dictionaries, through the official asyncio client.

Bodies never pass through typed models, which would drop fields that they do not know. Pods are created, not
applied, so that a taken name is seen; services and statuses are applied with one field manager. This file and
`handlers.py` are the only ones that import kubernetes or kopf; every foreign error ends here.
"""

import contextlib
import json
import logging
import os
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.config import incluster_config

from elasticjob_api import constants
from elasticjob_operator.cluster import owned
from elasticjob_operator.cluster.api_errors import FIRST_ERROR, KindNotFound, NotFound, error_from_response
from elasticjob_operator.cluster.flow_control import FlowControl
from elasticjob_operator.cluster.kinds import KINDS, path_of, selected
from elasticjob_operator.cluster.namespace_lister import ListResult, NamespaceLister
from elasticjob_operator.cluster.pager import PAGE_SIZE
from elasticjob_operator.cluster.responses import discard_body, iter_lines, read_answer
from elasticjob_operator.cluster.retained_jobs import JOBS_MEMORY, RetainedJobs
from elasticjob_operator.cluster.sockets import connector
from elasticjob_operator.cluster.status_patch import StatusPatcher
from elasticjob_operator.errors import ClusterError, ClusterUnavailable, TimedOut, WatchStale
from elasticjob_operator.informers.event_bus import RELIST_DELAY_S, EventBus
from elasticjob_operator.informers.transform import strip
from elasticjob_operator.informers.watch_staleness import DELIVERY_TIMEOUT_S, StalenessDetector
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource

FIELD_MANAGER = "elasticjob-operator"
RELIST_S = 300.0
"""Between two lists without any reason: what a watch has missed is found by then."""
_TIMEOUT_S = 10.0
_WATCH_S = 300
"""After so long the API server ends a watch, and another one is begun."""
_IDLE_TIMEOUT_S = 150.0
"""A watch gets a bookmark each minute: one that says nothing for so long is dead, whatever its connection says."""
_TIMEOUT = aiohttp.ClientTimeout(total=_TIMEOUT_S)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=_IDLE_TIMEOUT_S)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What this process is for the API server, for whoever else must reach it."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    key_path: str | None
    authorization: str | None
    """The whole header."""


class KubeCluster:
    """One API server; `namespaces` empty means all of them."""

    def __init__(
        self,
        api: client.ApiClient,
        event_bus: EventBus,
        namespaces: tuple[str, ...],
        *,
        page_size: int = PAGE_SIZE,
        jobs_memory: int = JOBS_MEMORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        api.user_agent = FIELD_MANAGER  # the API server takes it for the manager of what is created
        self._api = api
        self._event_bus = event_bus
        self._namespaces = namespaces or ("",)
        self._clock = clock
        self._lister = NamespaceLister(self._list_page, self._namespaces, page_size=page_size, clock=clock)
        self._flow_control = FlowControl(clock)
        self._kept_jobs = RetainedJobs(jobs_memory)
        self._statuses = StatusPatcher(self._apply, self.get)

    @classmethod
    async def connect(cls, event_bus: EventBus, namespaces: tuple[str, ...] = (), **options: Any) -> "KubeCluster":
        """As $KUBECONFIG says, else with the pod's service account, else as kubectl would. Nothing is asked yet."""
        settings = client.Configuration()
        await _load_credentials(settings)
        api = client.ApiClient(settings)
        settings.client_session_kwargs = {
            # Else the library looks for ~/.netrc before each request, in a thread of its own.
            "trust_env": bool(urllib.request.getproxies()),
            # As many as are wanted: `FlowControl` bounds the requests, and each namespace has two endless watches.
            "connector": connector(limit=0, ssl=api.rest_client.ssl_context),
        }
        return cls(api, event_bus, namespaces, **options)

    async def close(self) -> None:
        """End the connections."""
        await self._api.close()
        kwargs = self._api.configuration.client_session_kwargs or {}
        if (own := kwargs.get("connector")) is not None:  # the library leaves it to us
            await own.close()

    async def credentials(self) -> Credentials:
        """As they are now: tokens of service accounts are renewed."""
        settings = self._api.configuration
        return Credentials(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            certificate_path=settings.cert_file,
            key_path=settings.key_file,
            authorization=await settings.get_api_key_with_prefix("BearerToken"),
        )

    # protocol.Cluster

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._call("POST", path, resource, body=body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """As `create`; an unknown field is refused, not dropped."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._call("POST", path, resource, body=body, query={"fieldValidation": "Strict"})

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Server-side apply; Conflict when somebody else has said something about the same fields.

        An object with an owner is applied only over one of the same owner; Conflict else. An object that is there as
        wanted is not written.
        """
        path = path_of(resource, body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        if objects.owner_uids(body) and (there := await self._look(resource, path)) is not None:
            body = owned.over(resource, body, there)
            if owned.is_applied(body, there, FIELD_MANAGER):
                return there
        found: Object = json.loads(await self._apply(resource, path, body, force=False))
        return found

    async def _look(self, resource: Resource, path: str) -> Object | None:
        """The object, by a patch of nothing: a role that may apply Services need not read all of them."""
        try:
            return await self._call("PATCH", path, resource, body={}, content_type="application/merge-patch+json")
        except NotFound:
            return None

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Overwrite an object; None when it is not there."""
        path = path_of(resource, body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        try:
            return await self._call("PUT", path, resource, body=body)
        except NotFound:
            return None

    async def patch_status(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        status: Mapping[str, Any],
        *,
        uid: str | None = None,
        version: str | None = None,
    ) -> None:
        """Apply the status; fields that we said before and do not say now go."""
        await self._statuses.patch(resource, namespace, name, status, uid=uid, version=version)

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Apply these fields of the status, with a field manager of their own."""
        return await self._statuses.claim(resource, namespace, name, own, version)

    async def _apply(
        self, resource: Resource | None, path: str, body: Object, *, force: bool, manager: str = FIELD_MANAGER
    ) -> bytes:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        kind = "application/apply-patch+yaml"
        return await self._send("PATCH", path, resource, query=query, body=body, content_type=kind)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: float | None = None,
    ) -> None:
        """Delete one object, with `uid` or `version` only that very one."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if wanted := {"uid": uid, "resourceVersion": version} if version else {"uid": uid} if uid else {}:
            body["preconditions"] = {field: value for field, value in wanted.items() if value}
        if grace_s is not None:
            body["gracePeriodSeconds"] = int(grace_s)
        try:
            await self._send("DELETE", path_of(resource, namespace, name), resource, body=body)
        except NotFound:
            log.debug("%s %s/%s was gone already", resource.value, namespace, name)

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete all objects that have these labels."""
        labels = ",".join(f"{name}={value}" for name, value in selector.items())
        await self._send("DELETE", path_of(resource, namespace), query={"labelSelector": labels})

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object, by quorum."""
        try:
            # Whatever it is about, jobs wait for it: it takes no room of statuses.
            waits_for = Resource.LEASE if resource is Resource.LEASE else None
            return await self._call("GET", path_of(resource, namespace, name), waits_for)
        except NotFound:
            return None

    async def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        """A list of our own (quorum), then what the feed tells; again and again. Raises WatchDied.

        It is subscribed before the list, so nothing is missed. `ObjectWatch` feeds it, from where the first list ends:
        nobody tells of what is deleted while that one is interrupted, so another one follows it soon.
        """
        freshness = StalenessDetector()
        with self._event_bus.subscribe(resource) as changes:
            while True:
                self._statuses.forget_unknown_fields()
                kept_before, listed, result = self._kept_jobs.uids(), list[Object](), ListResult()
                async with contextlib.aclosing(self._list(resource, result)) as items:
                    async for item in items:
                        listed.append(objects.identity(item))  # the list is as large as all that is kept of it
                        yield ObjectEvent(Change.LISTED, item)
                if resource is Resource.JOB:
                    unlisted = kept_before - set(map(objects.uid_of, listed))
                    self._kept_jobs.drop_all(unlisted - freshness.delivered_in(result.forbidden))
                missed_deletions = result.was_interrupted and not freshness.started
                if not freshness.started:
                    freshness.start(listed)
                    self._event_bus.start(resource, result.versions)
                _require_delivered(resource, freshness.undelivered(listed, self._clock(), result.forbidden))
                yield ObjectEvent(Change.SYNCED, {}, unlisted=frozenset(result.forbidden))
                changes.relist_in(RELIST_DELAY_S if missed_deletions else RELIST_S)
                changes.relist_if_in(DELIVERY_TIMEOUT_S, freshness.is_suspect)
                while (event := await changes.get()) is not None:
                    freshness.delivered(event)
                    yield event

    # Beside the protocol.

    def is_saturated(self) -> bool:
        """As `FlowControl.is_saturated`."""
        return self._flow_control.is_saturated()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those it looks at; an empty name stands for all."""
        return self._namespaces

    def is_listed(self, namespace: str) -> bool:
        """Whether jobs and pods of this namespace are looked at, and were listed: else nothing should be done there."""
        return self._lister.has_listed(namespace)

    async def changes(
        self, resource: Resource, namespace: str, version: str
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """One connection of a watch: CONNECTED, then each change since `version` (none: all there is, as ADDED).

        Kinds are those of the API, BOOKMARK among them. Ends when the API server ends it; TooOld when it has forgotten.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_S)}
        query |= {"resourceVersion": version} if version else {}
        path = path_of(resource, namespace)
        async with self._request("GET", path, query=selected(resource, query), limits=_WATCH_TIMEOUT) as answer:
            if answer.status >= FIRST_ERROR:
                raise error_from_response(answer.status, f"GET {path}", await answer.read(), answer.headers)
            yield "CONNECTED", {}
            async for line in iter_lines(answer.content):
                kind, obj = self._read(resource, path, line)
                yield kind, obj

    def _read(self, resource: Resource, path: str, line: bytes) -> tuple[str, Object]:
        """One event; nothing of the whole object is left when the next one is read."""
        event = json.loads(line)
        kind, told = str(event["type"]), event["object"]
        if kind == "ERROR":
            raise error_from_response(int(told.get("code", 500)), f"watching {path}", json.dumps(told).encode())
        if resource is Resource.JOB and kind == "DELETED":
            self._kept_jobs.drop(told)
            return kind, objects.identity(told)  # it may wait for long, and nobody asks what it said
        return kind, told if kind == "BOOKMARK" else self._cut(resource, told)

    def _cut(self, resource: Resource, obj: Object) -> Object:
        """What is kept of an object."""
        kept = strip(resource, obj)
        return self._kept_jobs.retain(kept) if resource is Resource.JOB else kept

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        limits: aiohttp.ClientTimeout = _TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request, of which nothing is read yet; closed at the end."""
        url = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            request = await self._api.param_serialize(method, url, header_params=headers, auth_settings=["BearerToken"])
            found = await self._api.call_api(
                request[0], request[1], header_params=request[2], body=body, _request_timeout=limits
            )
            answer: aiohttp.ClientResponse = found.response
            async with answer:
                try:
                    yield answer
                finally:
                    discard_body(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            said = str(error) or type(error).__name__
            kind = TimedOut if isinstance(error, TimeoutError) else ClusterUnavailable
            raise kind(f"{method} {path}: the API server did not answer: {said}") from error

    async def cluster_id(self) -> str:
        """The uid of the kube-system namespace: what tells this cluster from every other."""
        found = await self._call("GET", "/api/v1/namespaces/kube-system")
        return str(found["metadata"]["uid"])

    async def require_served(self) -> None:
        """ClusterError that says what is missing, unless jobs and pods can be listed and kopf can find them."""
        await self._lister.require_one()
        # kubectl and the SDK look here: they must find the resource, not only be served it.
        groups = (await self._call("GET", "/apis"))["groups"]
        resources = (await self._call("GET", f"/apis/{constants.API_VERSION}"))["resources"]
        if not any(g["name"] == constants.GROUP for g in groups) or not any(
            r["name"] == constants.PLURAL for r in resources
        ):
            raise ClusterError(f"the API server serves {constants.PLURAL}.{constants.GROUP}, but does not show it yet")

    async def _list(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object, None]:
        """All there is, cut down to what is kept."""
        async with contextlib.aclosing(self._lister.list_all(resource, result)) as items:
            async for item in items:
                yield self._listed(resource, item)

    def _listed(self, resource: Resource, item: Object) -> Object:
        kind = KINDS[resource]
        return self._cut(resource, {"apiVersion": kind.api_version, "kind": kind.kind, **item})

    async def _list_page(
        self, resource: Resource, namespace: str, query: Mapping[str, str], most: int | None
    ) -> bytes | None:
        try:
            path = path_of(resource, namespace)
            async with (
                self._flow_control.of(None),
                self._request("GET", path, query=selected(resource, query)) as answer,
            ):
                return await read_answer(answer, f"GET {path}", most)
        except KindNotFound as error:
            crd = f"{constants.PLURAL}.{constants.GROUP}"
            raise ClusterError(f"the CRD {crd} is not installed; kubectl apply -f crds/elasticjob.yaml") from error

    async def _call(self, method: str, path: str, resource: Resource | None = None, **asked: Any) -> Object:
        found: Object = json.loads(await self._send(method, path, resource, **asked))
        return found

    async def _send(self, method: str, path: str, resource: Resource | None = None, **asked: Any) -> bytes:
        """The answer as text: that to a status has the whole job in it, and nobody reads it."""
        async with self._flow_control.of(resource), self._request(method, path, **asked) as answer:
            data = await read_answer(answer, f"{method} {path}", None)
        assert data is not None
        return data


async def _load_credentials(settings: client.Configuration) -> None:
    named = os.environ.get("KUBECONFIG")  # read now: the library has read it when it was imported
    try:
        if not named and incluster_config.SERVICE_HOST_ENV_NAME in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(named, client_configuration=settings)
    except config.ConfigException as error:
        raise ClusterError(f"no way to an API server: not in a pod, and no usable kubeconfig: {error}") from error


def _require_delivered(resource: Resource, undelivered: list[str]) -> None:
    if undelivered:
        example, count = undelivered[0], len(undelivered)
        raise WatchStale(
            f"the watch of {resource.value} has not shown {count} for {DELIVERY_TIMEOUT_S:g} s: {example}, …"
        )
