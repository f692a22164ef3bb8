"""`/healthz`, `/readyz` and `/metrics` on one port.

Alive: the operator's task runs, and each watch delivered an event within `MAX_SILENCE_S`. Watches list far more often
than that. A short outage of the API server is not a failure of this process, so the limit is long. Ready: jobs, pods
and etcd were listed, and the leader is known. A standby is ready as well, because a rollout waits for both replicas.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web

from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model.cluster_interface import Resource

MAX_SILENCE_S = 1800.0
"""Time without an event after which a watch counts as stale."""
_OK, _UNAVAILABLE = 200, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSources:
    """Functions that return the content of the responses."""

    running: Callable[[], bool]
    ready: Callable[[], bool]
    leads: Callable[[], bool]
    ages: Callable[[], Mapping[Resource, float]]
    metrics: Callable[[], bytes]
    metrics_type: str


class ProbeServer:
    """An HTTP server of probes and metrics; an async context manager that serves while it is entered."""

    def __init__(self, url: str, sources: ProbeSources) -> None:
        """Serve health at the path of `url`, for example http://0.0.0.0:8080/healthz.

        Raises:
            OperatorError: the URL is not `http://HOST:PORT/PATH`.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise OperatorError(f"--liveness {url}: it must be http://HOST:PORT/PATH")
        self._host, self._port = parts.hostname, parts.port
        self._sources = sources
        app = web.Application()
        app.router.add_get(parts.path or "/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise OperatorError(f"cannot answer probes on {self._host}:{self._port}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        fault = health(self._sources)
        return web.json_response({"operator": fault or "running"}, status=_UNAVAILABLE if fault else _OK)

    async def _ready(self, _request: web.Request) -> web.Response:
        ready = self._sources.ready()
        role = "leader" if self._sources.leads() else "standby"
        return web.json_response({"ready": ready, "role": role}, status=_OK if ready else _UNAVAILABLE)

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = self._sources.metrics()
        return web.Response(body=body, headers={"Content-Type": self._sources.metrics_type})


def health(sources: ProbeSources) -> str:
    """Return why the process is not healthy; empty if it is."""
    if not sources.running():
        return "its task has ended"
    silent = sorted(resource.value for resource, age_s in sources.ages().items() if age_s > MAX_SILENCE_S)
    return f"nothing was received from {', '.join(silent)} for {MAX_SILENCE_S:g} s" if silent else ""
