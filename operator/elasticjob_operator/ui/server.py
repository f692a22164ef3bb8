"""The page's server: four files, and streams of server-sent events. It reads the board and takes no orders.

No host but this one is named anywhere, a strict Content-Security-Policy says so to the browser, and a request by
another name than the loopback's is refused, so that no page of the internet can read this one by a name of its own
that points here (DNS rebinding). Who may look at all is not decided here: it listens where only they can come.
"""

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Any, Self

from aiohttp import web

from elasticjob_operator.errors import OperatorError
from elasticjob_operator.ui.serialize import Json, job_details, job_row
from elasticjob_operator.ui.state import PageState

MIN_INTERVAL_S = 1.0
"""At most one message to a stream in this time."""
KEEPALIVE_S = 15.0
"""A stream sends a sign of life at least this often."""
MAX_STREAMS = 64
"""So many people may look at once."""

_FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/app.css": ("app.css", "text/css"),
}
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Read = Callable[[int], Json | None]
"""What to say to who has seen everything up to this version; None: nothing."""


class PageServer:
    """An async context manager: it answers while it is entered. Port 0 is any free one."""

    def __init__(self, state: PageState, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._state = state
        self._host, self._port = host, port
        self._streams = 0
        app = web.Application(middlewares=[self._guarded])
        for path, (name, kind) in _FILES.items():
            app.router.add_get(path, _file(name, kind))
        app.router.add_get("/api/jobs", self._jobs)
        app.router.add_get("/api/jobs/{namespace}/{name}", self._job)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise OperatorError(f"cannot show the page on {self._host}:{self._port}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it is, as a browser on this machine wants it."""
        host, port, *_ = self._runner.addresses[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        if is_local(self._host) and not _names_loopback(request.host):
            raise web.HTTPForbidden(text="this page answers to localhost alone\n", headers=_HEADERS)
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        return response

    async def _jobs(self, request: web.Request) -> web.StreamResponse:
        def read(version: int) -> Json | None:
            news = self._state.since(version) if version >= 0 else None
            if news is None:
                return {"all": [job_row(entry) for entry in self._state.jobs.values()]}
            changed, gone = news
            return {"some": [job_row(entry) for entry in changed], "gone": gone} if changed or gone else None

        return await self._stream(request, read)

    async def _job(self, request: web.Request) -> web.StreamResponse:
        place = request.match_info["namespace"], request.match_info["name"]

        def read(version: int) -> Json | None:
            entry = self._state.jobs.get(place)
            if entry is None:
                return {"gone": True}
            return {"job": job_details(entry)} if entry.version > version else None

        return await self._stream(request, read)

    async def _stream(self, request: web.Request, read: Read) -> web.StreamResponse:
        if self._streams >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_STREAMS} people look already\n")
        self._streams += 1
        try:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for message in self._messages(read):
                await response.write(message)
        except ConnectionError:
            pass  # the reader has gone away
        finally:
            self._streams -= 1
        return response

    async def _messages(self, read: Read) -> AsyncIterator[bytes]:
        """Everything at first, then what changes, never faster than PACE_S; a comment when nothing does."""
        version = -1
        while True:
            now, news = self._state.version, read(version)
            version = now
            yield b": still here\n\n" if news is None else f"data: {json.dumps(news)}\n\n".encode()
            await asyncio.sleep(MIN_INTERVAL_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEPALIVE_S):
                    await self._state.changed(version)


def is_local(host: str) -> bool:
    """It is reached from this machine (or pod) alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(host: str) -> bool:
    """`host` as a browser sends it: `localhost:8081`, `[::1]:8081`."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return name in _LOCAL


def _file(name: str, kind: str) -> Callable[[web.Request], Any]:
    body = (resources.files("elasticjob_operator.ui") / "static" / name).read_bytes()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"})

    return answer
