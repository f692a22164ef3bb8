"""The server of the page: three files, and streams of server-sent events. It reads `PageState` and changes nothing.

The files name no other host, and a strict Content-Security-Policy forbids other hosts. Requests for another host name
than the loopback's are refused. Otherwise a web site could read this page through a name that resolves to the loopback
address (DNS rebinding). The server does not authenticate users: access depends on the address where it listens.
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
"""Least time between two messages of a stream."""
KEEPALIVE_S = 15.0
"""Most time between two messages or comments of a stream."""
MAX_STREAMS = 64
"""Most streams at the same time."""

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
"""Return the message for a client that has all changes up to this version; None without changes."""


class PageServer:
    """An async context manager that serves the page while it is entered. Port 0 means any free port."""

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
            raise OperatorError(f"cannot serve the web page on {self._host}:{self._port}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The URL of the page for a browser on this machine."""
        host, port, *_ = self._runner.addresses[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        if is_local(self._host) and not _names_loopback(request.host):
            raise web.HTTPForbidden(text="this page is only served for localhost\n", headers=_HEADERS)
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        return response

    async def _jobs(self, request: web.Request) -> web.StreamResponse:
        def read(version: int) -> Json | None:
            changes = self._state.since(version) if version >= 0 else None
            if changes is None:
                return {"all": [job_row(entry) for entry in self._state.jobs.values()]}
            changed, deleted = changes
            return {"some": [job_row(entry) for entry in changed], "gone": deleted} if changed or deleted else None

        return await self._stream(request, read)

    async def _job(self, request: web.Request) -> web.StreamResponse:
        namespaced_name = request.match_info["namespace"], request.match_info["name"]

        def read(version: int) -> Json | None:
            entry = self._state.jobs.get(namespaced_name)
            if entry is None:
                return {"gone": True}
            return {"job": job_details(entry)} if entry.version > version else None

        return await self._stream(request, read)

    async def _stream(self, request: web.Request, read: Read) -> web.StreamResponse:
        if self._streams >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text=f"this page has {MAX_STREAMS} streams already\n")
        self._streams += 1
        try:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for message in self._messages(read):
                await response.write(message)
        except ConnectionError:
            pass  # the client has closed the connection
        finally:
            self._streams -= 1
        return response

    async def _messages(self, read: Read) -> AsyncIterator[bytes]:
        """Return the whole state, then changes at intervals of at least MIN_INTERVAL_S; a comment without changes."""
        version = -1
        while True:
            current, message = self._state.version, read(version)
            version = current
            yield b": still here\n\n" if message is None else f"data: {json.dumps(message)}\n\n".encode()
            await asyncio.sleep(MIN_INTERVAL_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEPALIVE_S):
                    await self._state.changed(version)


def is_local(host: str) -> bool:
    """Return whether only this machine or pod can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(host: str) -> bool:
    """Return whether a Host header names the loopback: `localhost:8081`, `[::1]:8081`."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return name in _LOCAL


def _file(name: str, kind: str) -> Callable[[web.Request], Any]:
    body = (resources.files("elasticjob_operator.ui") / "static" / name).read_bytes()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"})

    return answer
