"""Signals to a run: the first one asks it to stop, the second one kills everything at once.

A request to stop is in `stop_request`; a closed standard output is one too. This module stops nothing, except by
`at_once`, which kills every process below this one and exits.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeVar

import psutil

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.exit_codes import CLOSED_OUTPUT

T = TypeVar("T")

_PASSES = 100
"""More than processes that are not malicious need; limited, so that a chain of forks does not keep the run alive."""

_CODES = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.LEFT,
    signal.SIGHUP: ExitCode.LEFT,
}


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to stop the run: the reason, and the exit code."""

    reason: str
    code: int


class Interrupted(Exception):
    """The run was asked to stop before the work was done."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.reason)
        self.request = request


class SignalWaiter:
    """A context manager that catches signals while it is open."""

    def __init__(self, at_once: Callable[[int], NoReturn]) -> None:
        """Prepare a stop request; `at_once` takes the exit code."""
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self.stop_request: asyncio.Future[StopRequest] = self._loop.create_future()

    def __enter__(self) -> Self:
        """Catch signals from now on."""
        for number, code in _CODES.items():
            self._loop.add_signal_handler(number, self._on_signal, number, int(code))
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the usual effect of signals."""
        for number in _CODES:
            self._loop.remove_signal_handler(number)

    def kill(self, code: int) -> NoReturn:
        """Kill everything at once, and exit with this code."""
        self._at_once(code)

    def output_closed(self) -> None:
        """Request a stop because the output cannot be written any more."""
        self._request_stop(StopRequest("the reader of the output closed it", CLOSED_OUTPUT))

    async def or_interrupted(self, work: Awaitable[T]) -> T:
        """Return the result of `work`; after a request to stop, cancel it and raise Interrupted."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self.stop_request}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            await asyncio.wait([task])
        if self.stop_request.done():
            raise Interrupted(self.stop_request.result()) from None if task.cancelled() else task.exception()
        return task.result()

    def _on_signal(self, number: signal.Signals, code: int) -> None:
        if self.stop_request.done():
            self._at_once(code)
        self._request_stop(StopRequest(signal.Signals(number).name, code))

    def _request_stop(self, request: StopRequest) -> None:
        if not self.stop_request.done():
            self.stop_request.set_result(request)


def kill_everything(code: int, *, remove: Callable[[], None] = lambda: None) -> NoReturn:
    """Kill every process below this one with SIGKILL, then exit with `code` without any cleanup but `remove`."""
    for process in _stopped_descendants():
        with suppress(psutil.Error):
            process.kill()
    remove()
    os._exit(code)


def _stopped_descendants() -> set[psutil.Process]:
    """Stop every process below this one with SIGSTOP; return them."""
    # A process that runs may start another one behind a list of processes. A stopped one cannot, and stays the
    # parent of its children. So the list is complete when a pass finds nothing new.
    stopped: set[psutil.Process] = set()
    for _ in range(_PASSES):
        found = set(psutil.Process().children(recursive=True)) - stopped
        if not found:
            break
        for process in found:
            with suppress(psutil.Error):  # it has ended, or another user owns it
                process.suspend()
        stopped |= found
    return stopped
