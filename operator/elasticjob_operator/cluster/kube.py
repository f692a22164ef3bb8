"""An implementation of `Cluster` for a real API server: plain dictionaries, through the official asyncio client.

Bodies never pass through typed models, which would drop fields that they do not know. Pods are created, not applied, so
that an existing name is an error. Services and statuses are applied with one field manager. This module alone imports
kubernetes, and translates the client's errors; `handlers.py` alone registers kopf's handlers.
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
"""Time between two lists without a cause; each shows changes that the watch has missed."""
_TIMEOUT_S = 10.0
_WATCH_S = 300
"""Time after which the API server ends a watch, and the operator begins another."""
_IDLE_TIMEOUT_S = 150.0
"""Time without data after which a watch counts as dead; it gets a bookmark each minute."""
_TIMEOUT = aiohttp.ClientTimeout(total=_TIMEOUT_S)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=_IDLE_TIMEOUT_S)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address of the API server and credentials of this process, for another client such as kopf's."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    key_path: str | None
    authorization: str | None
    """Value of the Authorization header."""


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
        api.user_agent = FIELD_MANAGER  # the API server uses it as the field manager of created objects
        self._api = api
        self._event_bus = event_bus
        self._namespaces = namespaces or ("",)
        self._clock = clock
        self._lister = NamespaceLister(self._list_page, self._namespaces, page_size=page_size, clock=clock)
        self._flow_control = FlowControl(clock)
        self._retained_jobs = RetainedJobs(jobs_memory)
        self._statuses = StatusPatcher(self._apply, self.get)

    @classmethod
    async def connect(cls, event_bus: EventBus, namespaces: tuple[str, ...] = (), **options: Any) -> "KubeCluster":
        """Return a cluster configured by $KUBECONFIG, the pod's service account, or kubectl's default, in this order.

        It sends no request.
        """
        settings = client.Configuration()
        await _load_credentials(settings)
        api = client.ApiClient(settings)
        settings.client_session_kwargs = {
            # With True, the library looks for ~/.netrc before each request, in a thread.
            "trust_env": bool(urllib.request.getproxies()),
            # No limit: `FlowControl` limits requests, and each namespace has two watches that never end.
            "connector": connector(limit=0, ssl=api.rest_client.ssl_context),
        }
        return cls(api, event_bus, namespaces, **options)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()
        kwargs = self._api.configuration.client_session_kwargs or {}
        if (own := kwargs.get("connector")) is not None:  # the library does not close it
            await own.close()

    async def credentials(self) -> Credentials:
        """Return the current credentials; tokens of service accounts are renewed from time to time."""
        settings = self._api.configuration
        return Credentials(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            certificate_path=settings.cert_file,
            key_path=settings.key_file,
            authorization=await settings.get_api_key_with_prefix("BearerToken"),
        )

    # The methods of `Cluster`.

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._call("POST", path, resource, body=body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """Create an object as `create` does, but refuse unknown fields instead of dropping them."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._call("POST", path, resource, body=body, query={"fieldValidation": "Strict"})

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Apply an object on the server's side, and return it as stored; without a write if nothing would change.

        Raises:
            Conflict: another field manager owns one of the fields, or the existing object has another owner.
        """
        path = path_of(resource, body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        if objects.owner_uids(body) and (existing := await self._look(resource, path)) is not None:
            body = owned.bind_to_existing(resource, body, existing)
            if owned.is_applied(body, existing, FIELD_MANAGER):
                return existing
        stored: Object = json.loads(await self._apply(resource, path, body, force=False))
        return stored

    async def _look(self, resource: Resource, path: str) -> Object | None:
        """Return the object, or None if it does not exist."""
        # An empty patch: a role that may apply Services then needs no right to read all of them.
        try:
            return await self._call("PATCH", path, resource, body={}, content_type="application/merge-patch+json")
        except NotFound:
            return None

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Overwrite an object and return it as stored; None if it does not exist."""
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
        """Apply the status; fields of our last status that this one lacks are removed."""
        await self._statuses.patch(resource, namespace, name, status, uid=uid, version=version)

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Apply these fields of the status with a separate field manager; return the object's version."""
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
        """Delete one object; with `uid` or `version`, only if it still has them."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if wanted := {"uid": uid, "resourceVersion": version} if version else {"uid": uid} if uid else {}:
            body["preconditions"] = {field: value for field, value in wanted.items() if value}
        if grace_s is not None:
            body["gracePeriodSeconds"] = int(grace_s)
        try:
            await self._send("DELETE", path_of(resource, namespace, name), resource, body=body)
        except NotFound:
            log.debug("%s %s/%s did not exist", resource.value, namespace, name)

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete all objects that have these labels."""
        labels = ",".join(f"{name}={value}" for name, value in selector.items())
        await self._send("DELETE", path_of(resource, namespace), query={"labelSelector": labels})

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object, read by quorum; None if it does not exist."""
        try:
            # Jobs wait for every read, so it does not count against the limit of statuses.
            limited_as = Resource.LEASE if resource is Resource.LEASE else None
            return await self._call("GET", path_of(resource, namespace, name), limited_as)
        except NotFound:
            return None

    async def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        """Return all objects (a list by quorum), then each change from the event bus; list again from time to time.

        The subscription begins before the list, so no change is missed. A `Reflector` publishes the changes since the
        end of the first list. Deletions during an interrupted first list are not published, so another list follows it
        soon.

        Raises:
            WatchStale: the watch did not deliver objects that a list showed.
        """
        freshness = StalenessDetector()
        with self._event_bus.subscribe(resource) as changes:
            while True:
                self._statuses.forget_unknown_fields()
                retained_before, listed, result = self._retained_jobs.uids(), list[Object](), ListResult()
                async with contextlib.aclosing(self._list(resource, result)) as items:
                    async for item in items:
                        listed.append(objects.identity(item))  # only the identity: a list may be large
                        yield ObjectEvent(Change.LISTED, item)
                if resource is Resource.JOB:
                    unlisted = retained_before - set(map(objects.uid_of, listed))
                    self._retained_jobs.drop_all(unlisted - freshness.delivered_in(result.forbidden))
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

    # Methods beyond `Cluster`.

    def is_saturated(self) -> bool:
        """Return whether a status write would delay jobs now; see `FlowControl.is_saturated`."""
        return self._flow_control.is_saturated()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The watched namespaces; an empty name means all."""
        return self._namespaces

    def is_listed(self, namespace: str) -> bool:
        """Return whether jobs and pods of this namespace were listed; otherwise its jobs are left alone."""
        return self._lister.has_listed(namespace)

    async def changes(
        self, resource: Resource, namespace: str, version: str
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Return the events of one watch connection: CONNECTED, then each change since `version`.

        Types of events are those of the API, BOOKMARK included. Without a version each existing object comes first, as
        ADDED. The generator ends when the API server ends the watch.

        Raises:
            ResourceExpired: the API server no longer knows the version.
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
        """Return the type of an event and the cached part of its object; the whole object is freed."""
        event = json.loads(line)
        kind, obj = str(event["type"]), event["object"]
        if kind == "ERROR":
            raise error_from_response(int(obj.get("code", 500)), f"watching {path}", json.dumps(obj).encode())
        if resource is Resource.JOB and kind == "DELETED":
            self._retained_jobs.drop(obj)
            return kind, objects.identity(obj)  # the event may wait long in a queue, and its content is not needed
        return kind, obj if kind == "BOOKMARK" else self._cut(resource, obj)

    def _cut(self, resource: Resource, obj: Object) -> Object:
        """Return the part of an object that is cached."""
        stripped = strip(resource, obj)
        return self._retained_jobs.retain(stripped) if resource is Resource.JOB else stripped

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
        """Return the response to one request, before its body is read; it is closed at the end."""
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
            cause = str(error) or type(error).__name__
            kind = TimedOut if isinstance(error, TimeoutError) else ClusterUnavailable
            raise kind(f"{method} {path}: the API server did not answer: {cause}") from error

    async def cluster_id(self) -> str:
        """Return the uid of the kube-system namespace, which identifies the cluster."""
        found = await self._call("GET", "/api/v1/namespaces/kube-system")
        return str(found["metadata"]["uid"])

    async def require_served(self) -> None:
        """Raise ClusterError unless jobs and pods can be listed and clients can discover ElasticJobs."""
        await self._lister.require_one()
        # kubectl and the SDK need the discovery documents, not only the path of the resource.
        groups = (await self._call("GET", "/apis"))["groups"]
        resources = (await self._call("GET", f"/apis/{constants.API_VERSION}"))["resources"]
        if not any(g["name"] == constants.GROUP for g in groups) or not any(
            r["name"] == constants.PLURAL for r in resources
        ):
            raise ClusterError(f"the API server serves {constants.PLURAL}.{constants.GROUP}, but does not list it yet")

    async def _list(self, resource: Resource, result: ListResult) -> AsyncGenerator[Object, None]:
        """Return the cached part of each object."""
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

    async def _call(self, method: str, path: str, resource: Resource | None = None, **options: Any) -> Object:
        found: Object = json.loads(await self._send(method, path, resource, **options))
        return found

    async def _send(self, method: str, path: str, resource: Resource | None = None, **options: Any) -> bytes:
        """Return the response as text; the one to a status has the whole job, and is never parsed."""
        async with self._flow_control.of(resource), self._request(method, path, **options) as answer:
            data = await read_answer(answer, f"{method} {path}", None)
        assert data is not None
        return data


async def _load_credentials(settings: client.Configuration) -> None:
    named = os.environ.get("KUBECONFIG")  # read now: the library reads it only when it is imported
    try:
        if not named and incluster_config.SERVICE_HOST_ENV_NAME in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(named, client_configuration=settings)
    except config.ConfigException as error:
        raise ClusterError(f"no API server is known: not in a pod, and no usable kubeconfig: {error}") from error


def _require_delivered(resource: Resource, undelivered: list[str]) -> None:
    if undelivered:
        example, count = undelivered[0], len(undelivered)
        raise WatchStale(
            f"the watch of {resource.value} has not shown {count} for {DELIVERY_TIMEOUT_S:g} s: {example}, …"
        )
