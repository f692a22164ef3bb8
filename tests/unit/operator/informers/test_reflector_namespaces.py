"""Lists of several namespaces, some of them forbidden; and deletions during an interrupted list."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from elasticjob_api import constants
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.list_watch import ListWatch
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.informers import reflector
from elasticjob_operator.informers.reflector import Reflector
from elasticjob_operator.model.cluster_interface import Change, Object, Resource
from testing.clocks.fake_clock import FakeClock

NAMESPACES = ("a", "b", "c")
WITHIN_S = 20.0
WATCHES = 110


def pod(namespace: str, name: str) -> Object:
    return {"metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "resourceVersion": "1"}}


@dataclass
class Server:
    """Pods and jobs of some namespaces, one object a page; those in `refused` are forbidden."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    refused_kinds: set[str] = field(default_factory=lambda: {"pods", "elasticjobs"})
    fails_second_page: int = 0
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch."""
        if "namespaces" not in request.path:
            return web.json_response({"groups": [{"name": constants.GROUP}], "resources": [{"name": constants.PLURAL}]})
        kind, space = request.path.split("/")[-1], request.path.split("/")[-2]
        if space in self.refused and kind in self.refused_kinds:
            body = {"reason": "Forbidden", "message": f"cannot list {kind} in {space}"}
            return web.json_response(body, status=403)
        return await (self.watch(request) if request.query.get("watch") else self.list(request, space))

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Send a bookmark, and no other event."""
        response = web.StreamResponse()
        await response.prepare(request)
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
        await response.write(json.dumps(bookmark).encode() + b"\n")
        await self.end.wait()
        return response

    async def list(self, request: web.Request, space: str) -> web.Response:
        """Return one page; a page that fails first deletes the objects of the page before it."""
        first, found = int(request.query.get("continue") or 0), self.objects.get(space, [])
        if first and self.fails_second_page:
            self.fails_second_page -= 1
            del found[0]
            return web.json_response({"message": "away"}, status=503)
        rest = {"continue": str(first + 1)} if first + 1 < len(found) else {}
        return web.json_response({"items": found[first : first + 1], "metadata": {"resourceVersion": "7", **rest}})


@dataclass
class Rig:
    """An API server, and an operator's lists and watches of it."""

    server: Server
    connection: Connection
    source: ListWatch
    clock: FakeClock
    reflector: Reflector = field(init=False)

    async def lists(self, count: int, resource: Resource = Resource.POD) -> AsyncIterator[tuple[list[str], set[str]]]:
        """Return the results of that many lists: names, and namespaces that were left out."""
        found = list[str]()
        self.reflector = Reflector(self.source, resource, clock=self.clock, relist_delay_s=0.0)
        async with contextlib.aclosing(self.reflector.events()) as stream:
            while count:
                async with asyncio.timeout(WITHIN_S):
                    event = await anext(stream)
                if event.change is Change.SYNCED:
                    yield found, set(event.unlisted)
                    found, count = [], count - 1
                else:
                    found.append(event.object["metadata"]["name"])


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    server = Server()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, runner.addresses[0][1])))
    connection = await Connection.open()
    yield Rig(server, connection, ListWatch(connection, NAMESPACES, page_size=1), FakeClock())
    server.end.set()
    await connection.close()
    await runner.cleanup()


def kubeconfig(folder: Path, port: int) -> Path:
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    clusters = [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    config: dict[str, Any] = {"clusters": clusters, "users": [{"name": "x", "user": {"token": "t"}}]}
    path = folder / "config"
    path.write_text(json.dumps({**config, "current-context": "x", "contexts": [context]}))
    return path


def in_each(suffixes: Iterable[str] = "p") -> dict[str, list[Object]]:
    return {space: [pod(space, f"{space}-{name}") for name in suffixes] for space in NAMESPACES}


async def test_a_forbidden_namespace_is_left_out_and_the_others_are_listed(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.server.objects, rig.server.refused = in_each(), {"b"}
    async for shown in rig.lists(1):
        assert shown == (["a-p", "c-p"], {"b"})
    assert rig.reflector._versions == {"a": "7", "b": "", "c": "7"}
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "cannot list pods of b, its cache remains unchanged"
    ]


async def test_the_operator_starts_unless_all_namespaces_are_forbidden(rig: Rig) -> None:
    rig.server.refused = {"a", "b"}
    await rig.source.require_served()
    rig.server.refused = set(NAMESPACES)
    with pytest.raises(Forbidden):
        await rig.source.require_served()


async def test_a_namespace_is_known_once_its_jobs_and_its_pods_were_listed(rig: Rig) -> None:
    rig.server.refused, rig.server.refused_kinds = {"b"}, {"pods"}
    for resource in (Resource.JOB, Resource.POD):
        async for _ in rig.lists(1, resource):
            pass
    assert [rig.source.has_listed(name) for name in (*NAMESPACES, "other")] == [True, False, True, False]
    rig.server.refused = set()
    async for _ in rig.lists(1):
        pass
    assert rig.source.has_listed("b")
    rig.server.refused = {"b"}
    async for _ in rig.lists(1):
        pass
    assert rig.source.has_listed("b"), "as while an API server is away"


async def test_objects_listed_again_after_a_refusal_do_not_make_the_watch_stale(rig: Rig) -> None:
    rig.server.objects = in_each()
    refusals = iter([{"b"}, {"b"}, {"b"}, set[str](), set[str]()])
    async for _, unlisted in rig.lists(6):
        rig.server.refused = next(refusals, unlisted)
        rig.clock.now_s += 1_000.0
        rig.reflector.request_list()


async def test_a_list_soon_follows_an_interrupted_first_list_and_lacks_deleted_objects(rig: Rig) -> None:
    rig.server.objects = {"a": [pod("a", name) for name in "xyz"]}
    rig.server.fails_second_page = 1
    shown = [found async for found, _ in rig.lists(2)]
    assert shown == [["x", "y", "z"], ["y", "z"]]


async def test_a_namespace_that_is_no_longer_forbidden_is_watched_from_the_beginning_and_listed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reflector, "_FORBIDDEN_RETRY_DELAYS_S", (0.0,))
    rig.server.refused = {"b"}
    caplog.set_level(logging.WARNING, reflector.__name__)
    left_out = list[set[str]]()
    async for _, unlisted in rig.lists(2):
        left_out.append(unlisted)
        rig.server.refused = set()
    assert left_out == [{"b"}, set()]


async def test_a_request_succeeds_with_more_open_watches_than_the_library_has_connections(
    rig: Rig,
) -> None:
    async def watch() -> None:
        async with contextlib.aclosing(rig.source.watch(Resource.POD, "a", "1")) as stream:
            async for _ in stream:
                connected.release()

    connected = asyncio.Semaphore(0)
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(watch()) for _ in range(WATCHES)]
        for _ in watches:
            await connected.acquire()
        assert await KubeCluster(rig.connection).get(Resource.POD, "a", "x")
        for each in watches:
            each.cancel()
