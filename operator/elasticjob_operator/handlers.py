"""All handlers of kopf, which runs the process: start, signals, login, and the end of everything that was opened.

kopf watches nothing, because it queues each object whole and without a limit. A few dozen jobs of the largest size that
an API server stores would use all memory. It also reports no deletion that an interrupted watch has missed.
`informers.reflector` watches jobs and pods.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import kopf

from elasticjob_operator.cluster.connection import Credentials
from elasticjob_operator.errors import OperatorError

_BACKOFFS_S = (0.2, 0.5, *[1.0] * 40)
"""Delays between kopf's attempts of one request: the API server is unavailable, or refuses all clients at its start."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OperatorTask:
    """The operator's task: kopf starts and ends it, and its own end stops kopf (`stop`)."""

    prepare: Callable[["OperatorTask", contextlib.AsyncExitStack], Awaitable[Coroutine[Any, Any, None]]]
    """Return the operator's work; the stack has what was opened for it, and is closed after the end of the task."""
    credentials: Callable[[], Awaitable[Credentials]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    task: "asyncio.Task[None] | None" = None
    _opened: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def is_alive(self) -> bool:
        """Whether the task was started and has not ended."""
        return self.task is not None and not self.task.done()

    async def start(self) -> None:
        """Prepare the operator, and start its task; raises what prevents that, and stops kopf."""
        try:
            async with contextlib.AsyncExitStack() as opened:  # kopf runs no cleanup after a start without success
                work = await self.prepare(self, opened)
                self._opened = opened.pop_all()
        except BaseException as error:
            self._stop(error if isinstance(error, Exception) else None)
            raise
        self.task = asyncio.create_task(work, name="operator")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._stop(None if task.cancelled() else task.exception())

    def _stop(self, failure: BaseException | None) -> None:
        self.failure = failure
        self.stop.set()  # after a signal, too: kopf would wait 5 s for its reader of the flag

    async def end(self) -> None:
        """Cancel the task, wait for its end, and close all resources."""
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # `_ended` has recorded it
                await self.task
        await self._opened.aclose()


def _register(registry: kopf.OperatorRegistry, operator_task: OperatorTask) -> None:
    """Add all handlers to `registry`."""

    @kopf.on.startup(registry=registry, id="start")
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        try:
            await operator_task.start()
        except Exception:  # noqa: BLE001 -- any error ends the process, and `main` logs it
            # kopf would repeat a failed handler after a minute. At the flag it cancels this one, and ends in order.
            await asyncio.Event().wait()

    @kopf.on.cleanup(registry=registry, id="end", errors=kopf.ErrorsMode.PERMANENT)
    async def end(**_: Any) -> None:
        await operator_task.end()

    @kopf.on.login(registry=registry, id="login")
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return _connection(await operator_task.credentials())


def _configure(settings: kopf.OperatorSettings) -> None:
    # The status writer writes events itself, because they follow the status that they explain.
    settings.posting.enabled = False
    # A watch of CRDs and namespaces needs rights in the whole cluster, and serves only kopf's own watches.
    settings.scanning.disabled = True
    settings.networking.error_backoffs = _BACKOFFS_S


async def run_with_kopf(operator_task: OperatorTask, namespaces: tuple[str, ...]) -> None:
    """Run until a signal, or until the operator ends.

    Raises the error that ended the operator or kopf.
    """
    registry = kopf.OperatorRegistry()
    _register(registry, operator_task)
    try:
        await kopf.operator(
            registry=registry,
            # Peers pause each other through an object that others may write; the Lease elects the leader instead.
            standalone=True,
            # kopf's server of probes has one path; health, readiness and metrics share a port (`probes`).
            liveness_endpoint=None,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=operator_task.stop,
        )
    except Exception as error:
        if operator_task.failure is None:
            raise OperatorError(f"kopf has stopped; the operator must restart: {error}") from error
    if operator_task.failure is not None:
        raise operator_task.failure


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
