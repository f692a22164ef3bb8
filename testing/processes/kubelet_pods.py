"""The pods of a real API server as `cli.local.kubelet.PodApi`: the requests of a kubelet and a scheduler, no more.

One namespace is watched, so that tests do not run each other's pods. Like a kubelet, it waits for an API server that
is down, and repeats its requests. After a new list it reports objects that were deleted meanwhile. A pod that does not
exist any more, or another one of the same name, is no error: uids go with every request.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource

_PAUSE_S = 0.1
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)
_GONE = frozenset({404, 409})
_AWAY = (aiohttp.ClientError, TimeoutError, OSError)
_LINE_LIMIT = 1 << 22


class ApiError(Exception):
    """The API server rejected a request that a kubelet may send."""


class KubeletPods:
    """A client of pods; an async context manager."""

    def __init__(self, url: str, *, token: str, certificate: Path, namespace: str) -> None:
        self._url = f"{url}/api/v1/namespaces/{namespace}/pods"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._trust = ssl.create_default_context(cafile=certificate)
        self._session: aiohttp.ClientSession | None = None
        self._known: dict[str, Object] = {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, read_bufsize=_LINE_LIMIT)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def watch(self, resource: Resource) -> AsyncIterator[ObjectEvent]:
        """Yield all pods as LISTED, one SYNCED, then every change; after a new list only the differences."""
        assert resource is Resource.POD
        first = True
        while True:
            try:
                listed = await self._request("GET", "", None)
                for event in self._differences(listed["items"]):
                    yield ObjectEvent(Change.LISTED, event.object) if first else event
                if first:
                    yield ObjectEvent(Change.SYNCED, {})
                first = False
                async for event in self._stream(listed["metadata"]["resourceVersion"]):
                    yield event
            except _AWAY:
                await asyncio.sleep(_PAUSE_S)

    def _differences(self, items: list[Object]) -> list[ObjectEvent]:
        before, self._known = self._known, {objects.uid_of(pod): pod for pod in items}
        deleted = [ObjectEvent(Change.DELETED, pod) for uid, pod in before.items() if uid not in self._known]
        changes = {uid: Change.MODIFIED if uid in before else Change.ADDED for uid in self._known}
        return deleted + [ObjectEvent(changes[uid], pod) for uid, pod in self._known.items()]

    async def _stream(self, since: str) -> AsyncIterator[ObjectEvent]:
        """Yield events until the stream ends or the API server reports an expired version; both require a new list."""
        assert self._session is not None
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        async with self._session.get(self._url, params=query, timeout=_WATCH_TIMEOUT) as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "BOOKMARK":
                    continue
                pod, change = event["object"], Change[event["type"]]
                if change is Change.DELETED:
                    self._known.pop(objects.uid_of(pod), None)
                else:
                    self._known[objects.uid_of(pod)] = pod
                yield ObjectEvent(change, pod)

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        await self._retry_until_answered("POST", f"/{name}/binding", {"metadata": metadata, "target": target})

    async def patch_pod_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status."""
        del namespace
        await self._retry_until_answered("PATCH", f"/{name}/status", {"metadata": {"uid": uid}, "status": dict(status)})

    async def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """Remove a deleted pod, as a kubelet does when none of its processes runs any more."""
        del namespace
        await self._retry_until_answered("DELETE", f"/{name}", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    async def _retry_until_answered(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        while True:
            with contextlib.suppress(*_AWAY):
                await self._request(method, path, body)
                return
            await asyncio.sleep(_PAUSE_S)

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        assert self._session is not None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method, self._url + path, json=body, headers={"Content-Type": kind}, timeout=_TIMEOUT
        ) as response:
            answer = await response.json()
            if response.status >= 500:
                raise aiohttp.ClientError(str(answer))
            if response.status >= 400 and response.status not in _GONE:
                raise ApiError(f"{method} {self._url}{path}: {answer.get('message')}")
            return answer
