"""Lists of several namespaces, some of which refuse; and what is deleted while a list is interrupted."""

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
from elasticjob_operator.cluster import kube
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.informers import reflector
from elasticjob_operator.informers.event_bus import EventBus
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
    """Pods and jobs of some namespaces, a page of one object each; of `refused` nothing is told."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    refused_kinds: set[str] = field(default_factory=lambda: {"pods", "elasticjobs"})
    fails_second_page: int = 0
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A list or a watch."""
        if "namespaces" not in request.path:
            return web.json_response({"groups": [{"name": constants.GROUP}], "resources": [{"name": constants.PLURAL}]})
        kind, space = request.path.split("/")[-1], request.path.split("/")[-2]
        if space in self.refused and kind in self.refused_kinds:
            said = {"reason": "Forbidden", "message": f"cannot list {kind} in {space}"}
            return web.json_response(said, status=403)
        return await (self.watch(request) if request.query.get("watch") else self.list(request, space))

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Tell how far it is, and nothing else."""
        told = web.StreamResponse()
        await told.prepare(request)
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
        await told.write(json.dumps(bookmark).encode() + b"\n")
        await self.end.wait()
        return told

    async def list(self, request: web.Request, space: str) -> web.Response:
        """One page; one that fails deletes what was on the page before it."""
        first, found = int(request.query.get("continue") or 0), self.objects.get(space, [])
        if first and self.fails_second_page:
            self.fails_second_page -= 1
            del found[0]
            return web.json_response({"message": "away"}, status=503)
        rest = {"continue": str(first + 1)} if first + 1 < len(found) else {}
        return web.json_response({"items": found[first : first + 1], "metadata": {"resourceVersion": "7", **rest}})


@dataclass
class Place:
    """An API server, and an operator's cluster on it."""

    server: Server
    cluster: KubeCluster
    feed: EventBus
    clock: FakeClock

    async def lists(self, count: int, resource: Resource = Resource.POD) -> AsyncIterator[tuple[list[str], set[str]]]:
        """What so many lists show: names, and the namespaces that they leave out."""
        found = list[str]()
        async with contextlib.aclosing(self.cluster.watch(resource)) as stream:
            while count:
                async with asyncio.timeout(WITHIN_S):
                    event = await anext(stream)
                if event.change is Change.SYNCED:
                    yield found, set(event.unlisted)
                    found, count = [], count - 1
                else:
                    found.append(event.object["metadata"]["name"])


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    server, feed, clock = Server(), EventBus(relist_delay_s=0.0), FakeClock()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, runner.addresses[0][1])))
    cluster = await KubeCluster.connect(feed, NAMESPACES, page_size=1, clock=clock)
    yield Place(server, cluster, feed, clock)
    server.end.set()
    await cluster.close()
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


async def test_a_namespace_that_refuses_is_left_out_and_the_others_are_listed(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.server.objects, place.server.refused = in_each(), {"b"}
    async for shown in place.lists(1):
        assert shown == (["a-p", "c-p"], {"b"})
    assert await place.feed.has_started(Resource.POD) == {"a": "7", "c": "7"}
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "cannot list pods of b, its cache remains unchanged"
    ]


async def test_a_namespace_that_refuses_is_no_reason_not_to_start_unless_all_do(place: Place) -> None:
    place.server.refused = {"a", "b"}
    await place.cluster.require_served()
    place.server.refused = set(NAMESPACES)
    with pytest.raises(Forbidden):
        await place.cluster.require_served()


async def test_a_namespace_is_known_once_its_jobs_and_its_pods_were_listed(place: Place) -> None:
    place.server.refused, place.server.refused_kinds = {"b"}, {"pods"}
    for resource in (Resource.JOB, Resource.POD):
        async for _ in place.lists(1, resource):
            pass
    assert [place.cluster.is_listed(name) for name in (*NAMESPACES, "other")] == [True, False, True, False]
    place.server.refused = set()
    async for _ in place.lists(1):
        pass
    assert place.cluster.is_listed("b")
    place.server.refused = {"b"}
    async for _ in place.lists(1):
        pass
    assert place.cluster.is_listed("b"), "as while an API server is away"


async def test_what_is_listed_again_after_a_refusal_is_no_sign_of_a_dead_watch(place: Place) -> None:
    place.server.objects = in_each()
    refusals = iter([{"b"}, {"b"}, {"b"}, set[str](), set[str]()])
    async for _, unlisted in place.lists(6):
        place.server.refused = next(refusals, unlisted)
        place.clock.now_s += 1_000.0
        place.feed.mark_listed(Resource.POD)


async def test_what_was_deleted_while_the_first_list_was_interrupted_is_not_in_the_list_that_soon_follows(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube, "RELIST_DELAY_S", 0.0)
    place.server.objects = {"a": [pod("a", name) for name in "xyz"]}
    place.server.fails_second_page = 1
    shown = [found async for found, _ in place.lists(2)]
    assert shown == [["x", "y", "z"], ["y", "z"]]


async def test_a_namespace_that_was_refused_is_watched_from_its_beginning_once_it_may_and_listed_then(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reflector, "_FORBIDDEN_RETRY_DELAYS_S", (0.0,))
    place.server.refused = {"b"}
    watching = asyncio.create_task(Reflector(place.cluster, place.feed, Resource.POD).run())
    caplog.set_level(logging.WARNING, reflector.__name__)
    left_out = list[set[str]]()
    async for _, unlisted in place.lists(2):
        left_out.append(unlisted)
        place.server.refused = set()
    watching.cancel()
    await asyncio.wait([watching])
    assert left_out == [{"b"}, set()]


async def test_a_request_is_answered_while_more_watches_are_open_than_the_library_has_connections(
    place: Place,
) -> None:
    async def watch() -> None:
        async with contextlib.aclosing(place.cluster.changes(Resource.POD, "a", "1")) as stream:
            async for _ in stream:
                connected.release()

    connected = asyncio.Semaphore(0)
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(watch()) for _ in range(WATCHES)]
        for _ in watches:
            await connected.acquire()
        assert await place.cluster.get(Resource.POD, "a", "x")
        for each in watches:
            each.cancel()
