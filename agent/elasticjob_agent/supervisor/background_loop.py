"""The one event loop and supervisor behind every synchronous call of this process.

A daemon thread owns them from the first use until the process ends. A worker's parent-death signal is bound to the
thread that started the worker or its fork server. It must not fire because the thread of some caller has ended. After
os.fork the child forgets the objects of its parent and makes its own at the first use. At the interpreter's exit,
everything that still runs is ended.

An interrupted call (Ctrl-C, an exception out of a signal handler) cancels its coroutine. It then waits until the
coroutine has undone its work, even if more interruptions follow. The clean-up of a coroutine must therefore take a
bounded time.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import selectors
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, Generic, TypeVar

from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.supervisor import Supervisor

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Background:
    """A thread with an event loop and a supervisor; `background()` returns the one of this process."""

    def __init__(self) -> None:
        _occupy_standard_descriptors()
        selector = selectors.DefaultSelector()
        fd_registry.register_object(selector)
        self._loop = asyncio.SelectorEventLoop(selector)
        for end in (self._loop._ssock, self._loop._csock):  # type: ignore[attr-defined]  # noqa: SLF001 - ours in a fork too
            fd_registry.register_object(end)
        self._creating = asyncio.Lock()
        self._supervisor: Supervisor | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="elasticjob-background", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for `call_soon_threadsafe`."""
        return self._loop

    async def supervisor(self) -> Supervisor:
        """Return the supervisor; call this in the loop of this object."""
        async with self._creating:
            if not self._supervisor:
                self._supervisor = await Supervisor.create()
            return self._supervisor

    def run(self, work: Awaitable[T]) -> T:
        """Run this in the loop, from any other thread, and return its result.

        An interruption cancels the work, waits for its end, and is then raised. Work that creates something must record
        it itself, where the caller's clean-up finds it.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "run() was called in the thread of its own event loop, which would deadlock: await the work"
            )
        call = _Call(self._loop, work)
        try:
            # Within the try: the work may begin before this call returns, and an interruption may come in between.
            self._loop.call_soon_threadsafe(call.begin)
            return call.outcome.result()
        except BaseException:
            if not call.outcome.done():
                self._loop.call_soon_threadsafe(call.cancel)
                _wait_uninterruptibly(call.outcome)
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run this in the loop, without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End everything that still runs, and the supervisor. The time is bounded."""
        if self._supervisor:
            self.run(self._supervisor.close())


def _occupy_standard_descriptors() -> None:
    """Open /dev/null for each of 0, 1 and 2 that is closed.

    Otherwise the next file that is opened gets such a number, and workers inherit it as their stdout or stderr.
    """
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:  # noqa: PLR2004 - stderr
            os.close(fd)
            return
        os.set_inheritable(fd, True)
        logger.warning("descriptor %s of this process was closed: it is connected to %s now", fd, os.devnull)


class _Call(Generic[T]):
    """One piece of work for the loop, and its outcome."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Awaitable[T]) -> None:
        self.outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Future[T] | None = None
        self._cancelled = False

    def begin(self) -> None:
        if self._cancelled:
            return
        self._task = asyncio.ensure_future(self._work, loop=self._loop)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task:
            self._task.cancel()
        else:  # interrupted before it has begun: it never will
            self.outcome.set_exception(concurrent.futures.CancelledError())

    def _finish(self, task: "asyncio.Future[T]") -> None:
        if task.cancelled():
            self.outcome.set_exception(concurrent.futures.CancelledError())
        elif error := task.exception():
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def _wait_uninterruptibly(outcome: "concurrent.futures.Future[T]") -> None:
    while not outcome.done():
        with contextlib.suppress(BaseException):  # the caller raises the first interruption; the work is bounded
            concurrent.futures.wait([outcome])


_lock = threading.Lock()
_current: Background | None = None
_abandoned: list[Background] = []
"""Those of the processes that this one was forked from: closed, and kept so that none is finalized here."""


def background() -> Background:
    """Return the background of this process; start it if necessary."""
    global _current  # noqa: PLW0603 - there is one per process
    with _lock:
        if _current is None:
            _current = Background()
            atexit.register(_close_at_exit, os.getpid())
        return _current


def _close_at_exit(pid: int) -> None:
    if pid == os.getpid() and _current:
        _current.close()


def _forget_in_child() -> None:
    global _lock, _current  # noqa: PLW0603 - as above; the lock may have been held in another thread
    _lock = threading.Lock()
    if _current:
        _abandoned.append(_current)
        _current = None


os.register_at_fork(after_in_child=_forget_in_child)
