"""The signals of an agent, as entries of its inbox: no handler of ours ever raises.

In the main thread the agent's handlers stand from before its first step until after its last; others that are
installed meanwhile, as by the start of a process context, are replaced again by `SignalHandlers.reinstall`.
"""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_VARIABLE = "TORCHELASTIC_SIGNALS_TO_HANDLE"
_DEFAULT = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_UNCATCHABLE = {signal.SIGKILL, signal.SIGSTOP}

log = logging.getLogger(__name__)


class SignalHandlers:
    """Handlers that pass each signal on to `receive`."""

    def __init__(self, receive: Callable[[signal.Signals], None]) -> None:
        self._receive = receive
        self._previous: dict[signal.Signals, Any] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """They stand inside, and what was there before is back afterwards; off the main thread nothing stands."""
        if threading.current_thread() is not threading.main_thread():
            log.warning("the agent does not run in the main thread: signals do not reach it, use stop()")
            yield
            return
        self._previous = {number: signal.getsignal(number) for number in signals_to_handle()}
        self.reinstall()
        try:
            yield
        finally:
            for number, handler in self._previous.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def reinstall(self) -> None:
        """Put them (back) in their place."""
        for number in self._previous:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._receive(signal.Signals(number))


def signals_to_handle() -> list[signal.Signals]:
    """Those of TORCHELASTIC_SIGNALS_TO_HANDLE that can be handled; a warning for each that cannot."""
    found = []
    for name in filter(None, map(str.strip, os.environ.get(_VARIABLE, _DEFAULT).split(","))):
        number = signal.Signals.__members__.get(name)
        if number is None or number in _UNCATCHABLE:
            log.warning(
                "%s names %s, which %s", _VARIABLE, name, "is unknown" if number is None else "cannot be caught"
            )
        else:
            found.append(number)
    return found
