"""The connection to one API server, through the official asyncio client: credentials, limits, requests, errors.

This module alone imports kubernetes, and translates the client's errors. Bodies are plain dictionaries: typed models
would drop fields that they do not know.
"""

import contextlib
import json
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.config import incluster_config

from elasticjob_operator.cluster.api_errors import FIRST_ERROR, error_from_response
from elasticjob_operator.cluster.flow_control import FlowControl
from elasticjob_operator.cluster.responses import discard_body, iter_lines, read_answer
from elasticjob_operator.cluster.sockets import SocketFactory, connector
from elasticjob_operator.errors import ClusterError, ClusterUnavailable, TimedOut
from elasticjob_operator.model.cluster_interface import Object, Resource

FIELD_MANAGER = "elasticjob-operator"
_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 150.0
"""Time without data after which a stream counts as dead; a watch gets a bookmark each minute."""
_TIMEOUT = aiohttp.ClientTimeout(total=_TIMEOUT_S)
_STREAM_TIMEOUT = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=_IDLE_TIMEOUT_S)


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


class Connection:
    """Requests to one API server."""

    def __init__(
        self, api: client.ApiClient, sockets: SocketFactory, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        api.user_agent = FIELD_MANAGER  # the API server uses it as the field manager of created objects
        self._api = api
        self._sockets = sockets
        self._flow_control = FlowControl(clock)

    @classmethod
    async def open(cls, **options: Any) -> "Connection":
        """Return a connection to the API server of $KUBECONFIG, of the pod's service account, or of kubectl's default.

        The first of these that exists counts. No request is sent.
        """
        settings = client.Configuration()
        await _load_credentials(settings)
        api, sockets = client.ApiClient(settings), SocketFactory()
        settings.client_session_kwargs = {
            # With True, the library looks for ~/.netrc before each request, in a thread.
            "trust_env": bool(urllib.request.getproxies()),
            # No limit: `FlowControl` limits requests, and each namespace has two watches that never end.
            "connector": connector(sockets, limit=0, ssl=api.rest_client.ssl_context),
        }
        return cls(api, sockets, **options)

    async def close(self) -> None:
        """Close all sockets."""
        await self._api.close()
        kwargs = self._api.configuration.client_session_kwargs or {}
        if (own := kwargs.get("connector")) is not None:  # the library does not close it
            await own.close()
        await self._sockets.close()

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

    def is_saturated(self) -> bool:
        """Return whether a status write would delay jobs now; see `FlowControl.is_saturated`."""
        return self._flow_control.is_saturated()

    async def call(self, method: str, path: str, resource: Resource | None = None, **options: Any) -> Object:
        """Return the response to one request as JSON."""
        found: Object = json.loads(await self.send(method, path, resource, **options))
        return found

    async def send(self, method: str, path: str, resource: Resource | None = None, **options: Any) -> bytes:
        """Return the response, not parsed; the response to a written status has the whole job."""
        data = await self.send_at_most(method, path, resource, None, **options)
        assert data is not None
        return data

    async def send_at_most(
        self, method: str, path: str, resource: Resource | None, most: int | None, **options: Any
    ) -> bytes | None:
        """Return the response as text; None if it has more bytes than `most`."""
        async with self._flow_control.of(resource), self._request(method, path, **options) as answer:
            return await read_answer(answer, f"{method} {path}", most)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Return the lines of a response that has begun and may never end; it does not count against the limits."""
        async with self._request("GET", path, query=query, limits=_STREAM_TIMEOUT) as answer:
            if answer.status >= FIRST_ERROR:
                raise error_from_response(answer.status, f"GET {path}", await answer.read(), answer.headers)
            yield iter_lines(answer.content)

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


async def _load_credentials(settings: client.Configuration) -> None:
    named = os.environ.get("KUBECONFIG")  # read now: the library reads it only when it is imported
    try:
        if not named and incluster_config.SERVICE_HOST_ENV_NAME in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(named, client_configuration=settings)
    except config.ConfigException as error:
        raise ClusterError(f"no API server is known: not in a pod, and no usable kubeconfig: {error}") from error
