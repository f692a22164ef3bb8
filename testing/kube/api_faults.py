"""A faulty API server: a proxy that rejects, delays and cuts requests, as a test requires.

It is a process of its own, `python -m testing.kube.api_faults URL CERTIFICATE`. It prints its address and serves plain
HTTP. Rejected requests never reach the API server; hidden ones do. A test controls it below `/-/`: POST `weather` and
`cut`, GET `state`.
"""

import asyncio
import json
import random
import ssl
import sys
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

_HOP_BY_HOP = ("host", "content-length", "transfer-encoding", "connection", "content-encoding", "accept-encoding")
_GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}


@dataclass(slots=True)
class FaultPlan:
    """The faults for requests."""

    refuse: list[int] = field(default_factory=list)
    """Answer with one of these statuses instead of forwarding."""
    hide: int = 0
    """Forward, and answer with this status whatever the result."""
    share: float = 0.5
    """The fraction of requests that are rejected or hidden."""
    delay_s: float = 0.0
    watches_gone: bool = False
    """Every watch gets the error that its version is too old."""
    mute: bool = False
    """Every watch remains open without events."""


@dataclass(slots=True)
class FaultyApiServer:
    """The proxy, over one session to the API server."""

    target: str
    session: aiohttp.ClientSession
    faults: FaultPlan = field(default_factory=FaultPlan)
    refused: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    watches: set["asyncio.Task[Any]"] = field(default_factory=set)

    async def change(self, request: web.Request) -> web.Response:
        """Other weather."""
        self.faults = FaultPlan(**await request.json())
        return web.json_response({})

    async def cut(self, _request: web.Request) -> web.Response:
        """End every watch in the middle."""
        watches = list(self.watches)
        for watch in watches:
            watch.cancel()
        return web.json_response({"cut": len(watches)})

    async def state(self, _request: web.Request) -> web.Response:
        """Return the state that a test may wait for."""
        return web.json_response({"watching": len(self.watches), "refused": self.refused})

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Forward one request, with the current faults."""
        weather = self.faults
        struck = bool(weather.refuse or weather.hide) and self.rng.random() < weather.share
        self.refused += struck
        await asyncio.sleep(weather.delay_s)
        if struck and weather.refuse:
            return refusal(self.rng.choice(weather.refuse))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        body = await request.read()
        forwarded = self.session.request(
            request.method, self.target + request.raw_path, headers=headers, data=body or None
        )
        async with forwarded as answer:
            if "watch=true" in request.query_string:
                return await self._stream(request, answer)
            if struck:
                return refusal(weather.hide)
            kind = answer.headers.get("Content-Type", "application/json")
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": kind})

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self.watches.add(task)
        try:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            if self.faults.watches_gone:
                await response.write(json.dumps({"type": "ERROR", "object": _GONE}).encode() + b"\n")
                return response
            async for chunk in answer.content.iter_any():
                if not self.faults.mute:
                    await response.write(chunk)
            return response
        finally:
            self.watches.discard(task)


def refusal(status: int) -> web.Response:
    """Return an answer in the API server's format."""
    reason = {409: "Conflict", 429: "TooManyRequests"}.get(status, "InternalError")
    body = {"kind": "Status", "status": "Failure", "reason": reason, "code": status, "message": "bad weather"}
    return web.json_response(body, status=status)


async def main(url: str, certificate: str) -> None:
    """Serve until killed."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=certificate), limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        storm = FaultyApiServer(url, session)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/-/weather", storm.change)
        app.router.add_post("/-/cut", storm.cut)
        app.router.add_get("/-/state", storm.state)
        app.router.add_route("*", "/{path:.*}", storm.forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        sys.stdout.write(f"listening on http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
