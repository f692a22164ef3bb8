"""Every kopf handler, and nothing else: what kopf sees goes into the feed, and the operator runs beside it.

kopf gives discovery, watching, credentials, probes and shutdown. Handlers of events only: no finalizers, no
annotations, no progress of kopf's in anybody's object; the reconciler is level-triggered and ours.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Any

import kopf

from elasticjob_api import names
from elasticjob_operator.cluster.feed import Feed
from elasticjob_operator.cluster.protocol import Change, ObjectEvent, Resource
from elasticjob_operator.operator import Operator

_SERVER_TIMEOUT_S = 300
_INACTIVITY_S = 70

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """The operator beside kopf: kopf's end ends it, its end ends kopf (`stop`)."""

    operator: Operator
    feed: Feed
    stop: asyncio.Event
    failure: BaseException | None = None
    task: "asyncio.Task[None] | None" = field(default=None)

    def ended(self, task: "asyncio.Task[None]") -> None:
        """The operator's task is over: by us, or by a fault that ends the process."""
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failure = failure
            log.error("the operator failed: %s", failure, exc_info=failure)
        self.stop.set()


def register(registry: kopf.OperatorRegistry, running: Running) -> None:
    """Add all handlers to `registry`."""

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        running.task = asyncio.create_task(running.operator.run(), name="operator")
        running.task.add_done_callback(running.ended)

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        if running.task is not None:
            running.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await running.task

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        running.feed.put(Resource.JOB, _change(event))

    @kopf.on.event("", "v1", "pods", labels={names.LABEL_JOB_UID: kopf.PRESENT}, registry=registry)
    async def pod_changed(event: kopf.RawEvent, **_: Any) -> None:
        running.feed.put(Resource.POD, _change(event))

    @kopf.on.probe(id="operator", registry=registry)
    async def alive(**_: Any) -> str:
        if running.task is None or running.task.done():
            raise kopf.PermanentError("the operator's task has ended")
        return "running"


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.posting.enabled = False
    settings.watching.server_timeout = _SERVER_TIMEOUT_S
    settings.watching.client_timeout = _SERVER_TIMEOUT_S + _INACTIVITY_S
    settings.watching.label_selectors["pods"] = names.LABEL_JOB_UID


def _change(event: kopf.RawEvent) -> ObjectEvent:
    """Kopf marks objects of a listing with no type; for the caches that is a change like any other."""
    return ObjectEvent(Change[event["type"] or "MODIFIED"], dict(event["object"]))
