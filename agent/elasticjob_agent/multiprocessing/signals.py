"""Signals to the parent process: their handlers while contexts live, and the moments when an exception may be raised.

All contexts of the process share the handlers. The first one that handles a signal keeps the previous handler; the last
one restores it. A context that is closed off the main thread cannot. Then the handler restores it when it is next
called, and forwards the signal. Inside `uninterrupted` nothing is raised; the exception is raised at its end, once.
"""

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

POLL_S = 0.5
"""Seconds for which a signal may at most go unnoticed while the main thread waits."""

Handler = Any
"""A value that signal.signal returns and accepts."""

_depth = 0
_pending: list[BaseException] = []
_listeners: list[Callable[[], None]] = []
_originals: dict[int, Handler] = {}
_users: "dict[int, weakref.WeakSet[HandlerUser]]" = {}


class SignalException(Exception):
    """This process has received a signal that a context handles."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        """Keep the signal.

        Args:
            msg: the text.
            sigval: the signal.
        """
        super().__init__(msg)
        self.sigval = sigval

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.sigval)


class HandlerUser:
    """A user of handlers, one for each start. It is referenced weakly: after its deletion it needs no handlers."""


def max_wait_s() -> float:
    """Return the maximum seconds of one wait of this thread; a caller with more time waits again.

    The main thread alone runs Python's signal handlers, between two instructions. A signal does not wake it if it comes
    a moment before the wait, or if the kernel gives it to another thread. Without a limit it would wait on.
    """
    return POLL_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX


def remember(signum: int, original: Handler, user: HandlerUser, ours: Handler) -> None:
    """Record that the handler `ours` of `user` has replaced `original`; both may be the same handler."""
    if original is not ours:
        _originals[signum] = original
    _users.setdefault(signum, weakref.WeakSet()).add(user)


def release(user: HandlerUser | None, ours: Handler) -> None:
    """Release this user's handlers; on the main thread, the last user restores the previous handlers."""
    for signum, users in list(_users.items()):
        if user:
            users.discard(user)
        if not users and threading.current_thread() is threading.main_thread():
            _restore(signum, ours)


def _restore(signum: int, ours: Handler) -> None:
    del _users[signum]
    original = _originals.pop(signum, None)
    if signal.getsignal(signum) is ours:  # else other code has installed another since, which remains
        signal.signal(signum, signal.SIG_DFL if original is None else original)


def pass_on(signum: int, frame: Any, ours: Handler) -> bool:
    """Restore the previous handler and give it the signal, if no context uses the signal; return whether it did."""
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
    """Prevent handlers from raising in this block; the outermost one raises the first exception at its end.

    Handlers run in the main thread only; in other threads this has no effect.

    Args:
        listener: called in the handler for each signal.
    """
    global _depth  # noqa: PLW0603 - signal handling is per process; only the main thread gets here
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
    """Reset the state: a forked process has no contexts of its parent, and is in no block of it."""
    global _depth  # noqa: PLW0603 - as above
    _depth = 0
    for each in (_pending, _listeners, _originals, _users):
        each.clear()


os.register_at_fork(after_in_child=_forget_in_child)
