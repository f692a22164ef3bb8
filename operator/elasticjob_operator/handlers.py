"""All kopf handlers: kopf provides start-up, login and shutdown, and the operator runs as a task beside it.

kopf watches nothing, because it keeps each list and each queued object whole in memory. A few dozen jobs of the largest
size that an API server stores would use all memory. `informers.reflector` watches jobs and pods.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import kopf

from elasticjob_operator.cluster.connection import Credentials

_BACKOFFS_S = (0.2, 0.5, *[1.0] * 40)
"""Delays between kopf's attempts of one request: the API server is unavailable, or refuses all clients at its start."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OperatorTask:
    """The operator's task beside kopf. The end of kopf cancels it; its own end stops kopf (`stop`)."""

    operate: Callable[[], Coroutine[Any, Any, None]]
    credentials: Callable[[], Awaitable[Credentials]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def is_alive(self) -> bool:
        """Whether the task was started and has not ended."""
        return self.task is not None and not self.task.done()

    def ended(self, task: "asyncio.Task[None]") -> None:
        """Record the exception that ended the operator's task, if any, and stop kopf."""
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
            with contextlib.suppress(asyncio.CancelledError, Exception):  # `ended` has recorded it
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
