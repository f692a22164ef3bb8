"""The stop of a run: the first signal asks, the second one ends everything at once.

`stop_request` is the one place that says so; a closed standard output asks too. Nothing is stopped here but by
`at_once`, which kills every process below this one and leaves without another look.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeVar

import psutil

from elasticjob_api.exit_codes import ExitCode, exit_code_of

T = TypeVar("T")

CLOSED_OUTPUT = exit_code_of(-signal.SIGPIPE)
"""As a program ends that dies of writing to a pipe nobody reads."""
_CODES = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.LEFT,
    signal.SIGHUP: ExitCode.LEFT,
}


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why the run should stop, and the exit code for it."""

    reason: str
    code: int


class Interrupted(Exception):
    """The run was asked to stop before it had begun."""

    def __init__(self, ask: StopRequest) -> None:
        super().__init__(ask.reason)
        self.request = ask


class SignalWaiter:
    """A context manager: signals are caught while it is open."""

    def __init__(self, at_once: Callable[[int], NoReturn]) -> None:
        """`at_once` takes the exit code."""
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self.stop_request: asyncio.Future[StopRequest] = self._loop.create_future()

    def __enter__(self) -> Self:
        """Begin to catch signals."""
        for number, code in _CODES.items():
            self._loop.add_signal_handler(number, self._on_signal, number, int(code))
        return self

    def __exit__(self, *_: object) -> None:
        """From here on signals have their usual effect."""
        for number in _CODES:
            self._loop.remove_signal_handler(number)

    def output_closed(self) -> None:
        """Nobody reads what we say."""
        self._request_stop(StopRequest("the reader of the output has gone", CLOSED_OUTPUT))

    async def or_interrupted(self, work: Awaitable[T]) -> T:
        """The result of `work`; once asked to stop, `work` is cancelled and Interrupted raised."""
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

    def _request_stop(self, ask: StopRequest) -> None:
        if not self.stop_request.done():
            self.stop_request.set_result(ask)


def kill_everything(code: int) -> NoReturn:
    """SIGKILL to every process below this one, then this one's own end with `code`; nothing is tidied up."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(code)
