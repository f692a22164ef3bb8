"""Every kopf handler, and nothing else: kopf gives start, login and shutdown, and the operator runs beside it.

kopf watches nothing. It holds each list whole, and each object of a queue; a few dozen jobs as large as an API server
stores would be all the memory there is. Jobs are watched as pods are, by `cluster.object_watch`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import kopf

from elasticjob_operator.cluster.kube import Credentials

_BACKOFFS_S = (0.2, 0.5, *[1.0] * 40)
"""Of one request of kopf's, when the API server is away or (in its first seconds) refuses everybody."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OperatorTask:
    """The operator beside kopf: kopf's end ends it, its end ends kopf (`stop`)."""

    operate: Callable[[], Coroutine[Any, Any, None]]
    credentials: Callable[[], Awaitable[Credentials]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def is_alive(self) -> bool:
        """It was started, and has not ended."""
        return self.task is not None and not self.task.done()

    def ended(self, task: "asyncio.Task[None]") -> None:
        """The operator's task is over: by us, or by a fault that ends the process."""
        if not task.cancelled():
            self.failure = task.exception()
        self.stop.set()


def register(registry: kopf.OperatorRegistry, operator_task: OperatorTask) -> None:
    """Add all handlers to `registry`."""

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        operator_task.task = asyncio.create_task(operator_task.operate(), name="operator")
        operator_task.task.add_done_callback(operator_task.ended)

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        if operator_task.task is not None:
            operator_task.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # `ended` has taken note of it
                await operator_task.task

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return _connection(await operator_task.credentials())


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = _BACKOFFS_S


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
