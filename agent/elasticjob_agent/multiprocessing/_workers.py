"""The workers of one context, seen from the caller's thread: started, watched and stopped in the background loop.

What has ended is noted by the loop and read by the caller; `changed` is set after each note. Starting is all or
nothing whatever interrupts it. Function workers wait with their values until `release`, since a value may be taken only
while the process that sends it lives: a tensor is a descriptor that the worker serves.
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
    Outcome,
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
        """How many workers it has."""
        return len(self._children)

    @property
    def all_ended(self) -> bool:
        """None of them lives."""
        return len(self.exits) == len(self._children)

    def start_commands(self, commands: Sequence[Command]) -> None:
        """Start commands; StartError if one cannot be started."""

        async def start() -> None:
            supervisor = await self._background.supervisor()
            self._register(await supervisor.spawn(commands))

        self._start(start())

    def start_functions(self, functions: Sequence[Function], method: str) -> None:
        """Start functions; StartError if one cannot be started, a pickling error as it comes."""

        async def start() -> None:
            self._functions = await started
            self._register([function.child for function in self._functions])
            for function in self._functions:
                function.outcome.add_done_callback(lambda _: self.changed.set())

        supervisor = self._background.run(self._background.supervisor())
        started = spawn_functions(supervisor, functions, method)
        self._start(start())

    def stop(self, sig: signal.Signals, *, grace_s: float, interrupted: "list[Callable[[], None]]") -> list[int]:
        """End all trees; return the ranks that outlived SIGKILL. An interruption ends the grace, and is raised last.

        Args:
            sig: the friendly signal.
            grace_s: seconds that all share.
            interrupted: gets a function that ends the grace at once, for signal handlers.
        """
        reap_s = max(grace_s, _MIN_REAP_S)

        def hurry() -> None:
            self._background.submit(self._stop(signal.SIGKILL, 0, reap_s))

        interrupted.append(hurry)
        work = self._background.submit(self._stop(sig, grace_s, reap_s))
        error = _wait_for(work, hurry)
        self.changed.set()
        if error:
            raise error
        return [rank for rank, child in enumerate(self._children) if child.wedged]

    def outcome(self, rank: int) -> Outcome | None:
        """What this function worker has told; None if nothing yet, or nothing ever."""
        if not self._functions:
            return None
        future = self._functions[rank].outcome
        return future.result() if future.done() and not future.cancelled() else None

    @property
    def has_all_outcomes(self) -> bool:
        """Every function worker has told how it ended, or never will."""
        return bool(self._functions) and all(function.outcome.done() for function in self._functions)

    def release(self) -> None:
        """Let the function workers go on to their end."""
        self._background.loop.call_soon_threadsafe(self._release)

    def has_failed(self, rank: int) -> bool:
        """It failed by itself: it ended badly, or was about to when it was stopped."""
        exit_ = self.exits.get(rank)
        outcome = self.outcome(rank)
        told = outcome is not None and outcome.kind in "RUN"
        return told or (exit_ is not None and exit_.code != 0 and not exit_.stopped_by_us)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.memory.take_baseline()
        try:
            self._background.run(work)
        except BaseException:
            # It may have been done in the very moment of the interruption.
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
        await asyncio.sleep(0)  # the notes of the last exits


def _wait_for(work: "concurrent.futures.Future[None]", on_interrupt: Callable[[], None]) -> BaseException | None:
    """Wait until it is done, whatever interrupts; return the first interruption, or the work's own error."""
    first: BaseException | None = None
    while not work.done():
        try:
            concurrent.futures.wait([work])
        except BaseException as error:  # noqa: BLE001 - it is raised when the workers are gone
            first = first or error
            on_interrupt()
    return first or work.exception()
