"""The workers of one context, for the caller's thread: they are started, watched and stopped in the background loop.

The loop records each exit and then sets `changed`; the caller reads the records. All workers start, or none, whatever
interrupts the start. Function workers wait with their values until `release`. A value may be unpickled only while its
process lives: a tensor, for example, is a descriptor that the worker serves.
"""

import asyncio
import concurrent.futures
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from elasticjob_agent.host.oom import OomCounter, find_folder
from elasticjob_agent.supervisor import (
    Background,
    Child,
    Command,
    Exit,
    Function,
    FunctionChild,
    FunctionOutcome,
    background,
    spawn_functions,
    stop_functions,
)

_MIN_REAP_S = 1.0


class WorkerSet:
    """The workers of one context, by local rank from 0."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self.exits: dict[int, Exit] = {}
        self.pids: dict[int, int] = {}
        self.memory = OomCounter(find_folder())
        self._background: Background = background()
        self._children: list[Child] = []
        self._functions: list[FunctionChild] = []

    @property
    def size(self) -> int:
        """Return the number of workers."""
        return len(self._children)

    @property
    def all_ended(self) -> bool:
        """Whether all workers have ended."""
        return len(self.exits) == len(self._children)

    def start_commands(self, commands: Sequence[Command]) -> None:
        """Start commands.

        Raises:
            StartError: one cannot be started.
        """

        async def start() -> None:
            supervisor = await self._background.supervisor()
            self._register(await supervisor.spawn(commands))

        self._start(start())

    def start_functions(self, functions: Sequence[Function], method: str) -> None:
        """Start functions; a pickling error is raised unchanged.

        Raises:
            StartError: one cannot be started.
        """

        async def start() -> None:
            self._functions = await started
            self._register([function.child for function in self._functions])
            for function in self._functions:
                function.outcome.add_done_callback(lambda _: self.changed.set())

        supervisor = self._background.run(self._background.supervisor())
        started = spawn_functions(supervisor, functions, method)
        self._start(start())

    def stop(self, sig: signal.Signals, *, grace_s: float, interrupted: "list[Callable[[], None]]") -> list[int]:
        """End all trees and return the ranks that survived SIGKILL.

        An interruption ends the grace; it is raised when all is done.

        Args:
            sig: the signal that asks them to end.
            grace_s: seconds that all share.
            interrupted: gets a function that ends the grace at once, for signal handlers.
        """
        reap_s = max(grace_s, _MIN_REAP_S)

        def end_grace() -> None:
            self._background.submit(self._stop(signal.SIGKILL, 0, reap_s))

        interrupted.append(end_grace)
        work = self._background.submit(self._stop(sig, grace_s, reap_s))
        error = _wait_for(work, end_grace)
        self.changed.set()
        if error:
            raise error
        return [rank for rank, child in enumerate(self._children) if child.wedged]

    def outcome(self, rank: int) -> FunctionOutcome | None:
        """Return the outcome that this function worker has sent, or None without one."""
        if not self._functions:
            return None
        future = self._functions[rank].outcome
        return future.result() if future.done() and not future.cancelled() else None

    @property
    def has_all_outcomes(self) -> bool:
        """Whether every function worker has sent its outcome or has ended without one."""
        return bool(self._functions) and all(function.outcome.done() for function in self._functions)

    def release(self) -> None:
        """Let the function workers continue to their end."""
        self._background.loop.call_soon_threadsafe(self._release)

    def has_failed(self, rank: int) -> bool:
        """Whether it failed by itself: it ended with an error, or was about to when it was stopped."""
        exit_ = self.exits.get(rank)
        outcome = self.outcome(rank)
        reported = outcome is not None and outcome.kind in "RUN"
        return reported or (exit_ is not None and exit_.code != 0 and not exit_.stopped_by_us)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.memory.take_baseline()
        try:
            self._background.run(work)
        except BaseException:
            # The start may have finished at the very moment of the interruption.
            self.stop(signal.SIGKILL, grace_s=0, interrupted=[])
            raise

    def _register(self, children: list[Child]) -> None:
        self._children = children
        for rank, child in enumerate(children):
            self.pids[rank] = child.pid
            child.exit.add_done_callback(partial(self._record_exit, rank))

    def _record_exit(self, rank: int, exit_: "asyncio.Future[Exit]") -> None:
        self.exits[rank] = exit_.result()
        self.changed.set()

    def _release(self) -> None:
        for function in self._functions:
            function.release()

    async def _stop(self, sig: signal.Signals, grace_s: float, reap_s: float) -> None:
        if self._functions:
            await stop_functions(self._functions, sig=sig, grace_s=grace_s, reap_s=reap_s)
        elif self._children:
            supervisor = await self._background.supervisor()
            await supervisor.stop(self._children, sig=sig, grace_s=grace_s, reap_s=reap_s)
        await asyncio.sleep(0)  # lets the callbacks of the last exits run


def _wait_for(work: "concurrent.futures.Future[None]", on_interrupt: Callable[[], None]) -> BaseException | None:
    """Wait until it is done, despite interruptions; return the first interruption, or the work's own error."""
    first: BaseException | None = None
    while not work.done():
        try:
            concurrent.futures.wait([work])
        except BaseException as error:  # noqa: BLE001 - it is raised after the end of the workers
            first = first or error
            on_interrupt()
    return first or work.exception()
