"""Signals to the parent: who handles them while contexts live, and when an exception may be raised.

Handlers are shared by all contexts of the process: the first one that wants a signal remembers what was there, the
last one puts it back. A context that is closed off the main thread cannot: then the handler does so when it is next
called, and passes the signal on. Inside `uninterrupted` nothing is raised; the exception comes at its end, once.
"""

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

POLL_S = 0.5
"""The longest that a signal can go unnoticed in a wait of the main thread."""

Handler = Any
"""What signal.signal returns and takes."""

_depth = 0
_pending: list[BaseException] = []
_listeners: list[Callable[[], None]] = []
_originals: dict[int, Handler] = {}
_users: "dict[int, weakref.WeakSet[HandlerUser]]" = {}


class SignalException(Exception):
    """A signal that a context handles has come to this process."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        """Say which one.

        Args:
            msg: the sentence.
            sigval: the signal.
        """
        super().__init__(msg)
        self.sigval = sigval

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.sigval)


class HandlerUser:
    """Whoever wants handlers: one for each start. It is only known weakly: one that is forgotten wants none."""


def max_wait_s() -> float:
    """How long one wait of this thread may last, in seconds; who has more time waits again.

    The main thread alone runs Python's signal handlers, between two instructions. A signal that comes a moment before
    it blocks, or that the kernel gives to another thread, does not wake it: without a bound it would wait on.
    """
    return POLL_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX


def remember(signum: int, original: Handler, user: HandlerUser, ours: Handler) -> None:
    """This user's handler, `ours`, has just replaced `original`, which may be ours too."""
    if original is not ours:
        _originals[signum] = original
    _users.setdefault(signum, weakref.WeakSet()).add(user)


def release(user: HandlerUser | None, ours: Handler) -> None:
    """This user needs no handler any more; the last one restores what was there before, on the main thread."""
    for signum, users in list(_users.items()):
        if user:
            users.discard(user)
        if not users and threading.current_thread() is threading.main_thread():
            _restore(signum, ours)


def _restore(signum: int, ours: Handler) -> None:
    del _users[signum]
    original = _originals.pop(signum, None)
    if signal.getsignal(signum) is ours:  # else somebody has installed another since: theirs stays
        signal.signal(signum, signal.SIG_DFL if original is None else original)


def pass_on(signum: int, frame: Any, ours: Handler) -> bool:
    """If no context is left that wants this signal: restore what was there and hand the signal to it."""
    if _users.get(signum) is None or _users[signum]:
        return False
    _restore(signum, ours)
    original = signal.getsignal(signum)
    if callable(original):
        original(signum, frame)
    elif original == signal.SIG_DFL:
        os.kill(os.getpid(), signum)
    return True


def deliver(error: BaseException) -> None:
    """Raise this now or, inside `uninterrupted`, at its end."""
    if not _depth:
        raise error
    _pending.append(error)
    for listener in _listeners:
        listener()


@contextlib.contextmanager
def uninterrupted(listener: Callable[[], None] | None = None) -> Iterator[None]:
    """No handler raises in this block; the first exception that came is raised at the end of the outermost one.

    Handlers run in the main thread only, so elsewhere this does nothing.

    Args:
        listener: called, in the handler, for each signal that comes.
    """
    global _depth  # noqa: PLW0603 - signal handling is per process; only the main thread comes here
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _depth += 1
    if listener:
        _listeners.append(listener)
    try:
        yield
    finally:
        if listener:
            _listeners.remove(listener)
        _depth -= 1
        if not _depth and _pending:
            error, _pending[:] = _pending[0], []
            raise error


def _forget_in_child() -> None:
    """A forked process has none of its parent's contexts, and is in none of its parent's blocks."""
    global _depth  # noqa: PLW0603 - as above
    _depth = 0
    for each in (_pending, _listeners, _originals, _users):
        each.clear()


os.register_at_fork(after_in_child=_forget_in_child)
