"""`/healthz`, `/readyz` and `/metrics` on one port.

Alive means: the operator's own task runs, and each watch was heard of within `MAX_SILENCE_S` (it is listed anew far
more often; the API server being away for a while is no fault of the process). Ready means: jobs, pods and etcd were
listed, and a leader is known. A replica that stands by is as ready as the leader: a rollout waits for both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web

from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model.cluster_interface import Resource

MAX_SILENCE_S = 1800.0
_OK, _UNAVAILABLE = 200, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSources:
    """What the answers are made of."""

    running: Callable[[], bool]
    ready: Callable[[], bool]
    leads: Callable[[], bool]
    ages: Callable[[], Mapping[Resource, float]]
    metrics: Callable[[], bytes]
    metrics_type: str


class ProbeServer:
    """An async context manager: it answers while it is entered."""

    def __init__(self, url: str, sources: ProbeSources) -> None:
        """`url` as http://0.0.0.0:8080/healthz; its path is where health is told."""
        at = urlsplit(url)
        if at.scheme != "http" or not at.hostname or not at.port:
            raise OperatorError(f"--liveness {url}: it must be http://HOST:PORT/PATH")
        self._host, self._port = at.hostname, at.port
        self._sources = sources
        app = web.Application()
        app.router.add_get(at.path or "/healthz", self._health)
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
        said = health(self._sources)
        return web.json_response({"operator": said or "running"}, status=_UNAVAILABLE if said else _OK)

    async def _ready(self, _request: web.Request) -> web.Response:
        ready = self._sources.ready()
        role = "leader" if self._sources.leads() else "standby"
        return web.json_response({"ready": ready, "role": role}, status=_OK if ready else _UNAVAILABLE)

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = self._sources.metrics()
        return web.Response(body=body, headers={"Content-Type": self._sources.metrics_type})


def health(sources: ProbeSources) -> str:
    """Return the fault, or nothing."""
    if not sources.running():
        return "its task has ended"
    silent = sorted(resource.value for resource, age_s in sources.ages().items() if age_s > MAX_SILENCE_S)
    return f"nothing was received from {', '.join(silent)} for {MAX_SILENCE_S:g} s" if silent else ""
