"""The API server for `make bench-operator`: plain requests over aiohttp, without any code of the operator.

It is the reference (a bare client loop) and acts for the benchmark's users; it knows paths and no meaning. It is not
for other uses: an answer without success is an error, and nothing is retried.
"""

import asyncio
import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

T = TypeVar("T")

AT_ONCE = 32
"""Concurrent requests: as many as the operator allows itself."""
_FIRST_ERROR = 400
_GONE = frozenset({404, 409})
_WRITE = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\d+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_READS = frozenset({"GET", "LIST", "WATCH"})
JOBS = "/apis/elasticjob.io/v1alpha1"


class Api:
    """One API server, as an administrator."""

    def __init__(self, url: str, certificate: Path, token: str = "admin-token") -> None:
        self._url = url
        self._trust = ssl.create_default_context(cafile=certificate)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(headers=self._headers, connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", gone: bool = False
    ) -> dict[str, Any]:
        """Send one request; with `gone`, an object that does not exist (any more) is an empty answer."""
        data = None if body is None else json.dumps(body)
        async with self._open.request(method, self._url + path, data=data, headers={"Content-Type": kind}) as answer:
            text = await answer.read()
            if gone and answer.status in _GONE:
                return {}
            if answer.status >= _FIRST_ERROR:
                raise AssertionError(f"{method} {path}: {answer.status} {text[:300].decode(errors='replace')}")
            found: dict[str, Any] = json.loads(text)
            return found

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        """Create."""
        return await self.request("POST", path, body)

    async def merge(self, path: str, body: Any, *, gone: bool = False) -> dict[str, Any]:
        """Send a merge patch."""
        return await self.request("PATCH", path, body, kind="application/merge-patch+json", gone=gone)

    async def watch(self, path: str, selector: str = "") -> AsyncGenerator[dict[str, Any], None]:
        """Every object as ADDED, then every change; ends when the server ends it."""
        query = f"?watch=true&labelSelector={selector}"
        async with self._open.get(self._url + path + query) as answer:
            buffer = bytearray()
            async for chunk in answer.content.iter_any():
                buffer += chunk
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    yield json.loads(line)

    async def writes(self) -> Counter[str]:
        """Return requests that change something, by resource, of all clients, since the API server's start."""
        async with self._open.get(f"{self._url}/metrics") as answer:
            text = await answer.text()
        counts: Counter[str] = Counter()
        for match in _WRITE.finditer(text):
            labels = dict(_LABEL.findall(match["labels"]))
            if labels.get("verb") not in _READS:
                what = "/".join(filter(None, (labels.get("resource"), labels.get("subresource"))))
                counts[f"{what} {labels.get('verb', '').lower()}"] += int(match["count"])
        return counts

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise AssertionError("entered first")
        return self._session


async def side_by_side(tasks: Iterable[Callable[[], Awaitable[T]]], at_once: int = AT_ONCE) -> None:
    """Run all of them, so many at a time."""
    todo = iter(tasks)

    async def worker() -> None:
        for task in todo:
            await task()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
