"""Every kopf handler, and nothing else: what kopf sees goes into the feed, and the operator runs beside it.

kopf gives discovery, watching and shutdown. Handlers of events only: no finalizers, no annotations, no
progress of kopf's in anybody's object; the reconciler is level-triggered and ours. It is started only when the
API server serves what it will watch: kopf itself does not wait for a CRD, nor for permission.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kopf

from elasticjob_api import names
from elasticjob_operator.cluster.feed import Feed
from elasticjob_operator.cluster.kube import Credentials
from elasticjob_operator.cluster.protocol import Change, ObjectEvent, Resource
from elasticjob_operator.cluster.slim import slim
from elasticjob_operator.cluster.sockets import connector

_SERVER_TIMEOUT_S = 300
_INACTIVITY_S = 70
_BACKOFFS_S = (0.2, 0.5, *[1.0] * 40)
"""Of one request of kopf's, when the API server is away or (in its first seconds) refuses everybody."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """The operator beside kopf: kopf's end ends it, its end ends kopf (`stop`)."""

    operate: Callable[[], Coroutine[Any, Any, None]]
    credentials: Callable[[], Awaitable[Credentials]]
    feed: Feed
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def alive(self) -> bool:
        """It was started, and has not ended."""
        return self.task is not None and not self.task.done()

    def ended(self, task: "asyncio.Task[None]") -> None:
        """The operator's task is over: by us, or by a fault that ends the process."""
        if not task.cancelled():
            self.failure = task.exception()
        self.stop.set()


def register(registry: kopf.OperatorRegistry, running: Running) -> None:
    """Add all handlers to `registry`."""

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        running.task = asyncio.create_task(running.operate(), name="operator")
        running.task.add_done_callback(running.ended)

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        if running.task is not None:
            running.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # `ended` has taken note of it
                await running.task

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return session(await running.credentials())

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        _tell(running.feed, Resource.JOB, event)


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = _BACKOFFS_S
    settings.watching.server_timeout = _SERVER_TIMEOUT_S
    settings.watching.client_timeout = _SERVER_TIMEOUT_S + _INACTIVITY_S
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.persistence.progress_storage = _NoProgress()


class _NoDifferences(kopf.DiffBaseStorage):
    """Nobody asks what has changed; by default kopf copies every object of every event twice to know it."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:  # noqa: ARG002 -- kopf's names
        """Nothing is worth comparing."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Nothing is kept."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is kept."""


class _NoProgress(kopf.ProgressStorage):
    """Handlers of events have no progress."""

    def fetch(self, *, key: str, body: kopf.Body) -> None:
        """Nothing is kept."""

    def store(self, *, key: str, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing is kept."""

    def purge(self, *, key: str, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing is kept."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """No object of anybody's is touched."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """There is nothing to clear."""
        return essence


def _connection(found: Credentials) -> kopf.ConnectionInfo:
    scheme, _, token = (found.authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=found.server,
        ca_path=found.ca_path,
        insecure=found.insecure,
        certificate_path=found.certificate_path,
        private_key_path=found.key_path,
        scheme=scheme or None,
        token=token or None,
    )


def session(credentials: Credentials) -> kopf.AiohttpSession:
    """As kopf would make it, with sockets that notice a dead API server; kopf closes it."""
    found = _connection(credentials)
    made = aiohttp.ClientSession(
        connector=connector(limit=0, ssl=found.as_ssl_context()), headers=found.as_http_headers()
    )
    return kopf.AiohttpSession(server=found.server, aiohttp_session=made)


def _tell(feed: Feed, resource: Resource, event: kopf.RawEvent) -> None:
    """Kopf marks objects of a listing with no type; for the caches that is a change like any other."""
    feed.put(resource, ObjectEvent(Change[event["type"] or "MODIFIED"], slim(resource, dict(event["object"]))))
    if event["type"] is None:
        feed.listed(resource)
