"""The one event loop and supervisor behind every synchronous call of this process.

A daemon thread, made at the first use, owns them for the life of the process: a worker's parent-death signal is
bound to the thread that started it, or its starter, and must not fire because some caller's thread has ended. After
os.fork the child forgets its parent's and makes its own at the first use. At the interpreter's exit what still runs
is ended.

A call that is interrupted (Ctrl-C, an exception out of a signal handler) cancels its coroutine and waits until that
has undone its work, however often it is interrupted again; what the coroutine does on cancellation must be bounded.
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
    """A thread with an event loop, and its supervisor; ask `background()` for the one of this process."""

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
        """The supervisor; to be awaited in this loop."""
        async with self._creating:
            if not self._supervisor:
                self._supervisor = await Supervisor.create()
            return self._supervisor

    def run(self, work: Awaitable[T]) -> T:
        """Run this in the loop and wait for it, from any other thread.

        On an interruption the work is cancelled, its end awaited, and the interruption raised: a caller whose work
        makes something must let the work itself note it where the caller's clean-up finds it.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("this would wait for itself: await it instead")
        call = _Call(self._loop, work)
        try:
            # Within the try: the work may begin before this call returns, and the interruption come in between.
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
        """End everything that still runs, and the supervisor. Bounded."""
        if self._supervisor:
            self.run(self._supervisor.close())


def _occupy_standard_descriptors() -> None:
    """What is opened next would become our stdout if that is closed, and workers would inherit it as theirs."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:  # noqa: PLR2004 - stderr
            os.close(fd)
            return
        os.set_inheritable(fd, True)
        logger.warning("descriptor %s of this process is closed: it is %s from now on", fd, os.devnull)


class _Call(Generic[T]):
    """One piece of work on its way through the loop."""

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
        else:  # interrupted so early that it has not begun: it never will
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
        with contextlib.suppress(BaseException):  # the first interruption is raised by the caller; the work is bounded
            concurrent.futures.wait([outcome])


_lock = threading.Lock()
_current: Background | None = None
_abandoned: list[Background] = []
"""Of the processes that this one was forked from: closed, and kept so that nothing of them is finalized here."""


def background() -> Background:
    """The background of this process, started if need be."""
    global _current  # noqa: PLW0603 - one per process is what it is for
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
