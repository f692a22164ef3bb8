"""The signals of an agent, as messages in its mailbox: no handler of ours ever raises.

In the main thread, the agent's handlers are installed from before its first step until after its last. Others may be
installed meanwhile, for example by the start of a process context. `SignalHandlers.reinstall` replaces them.
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
    """Handlers that pass each signal to `receive`."""

    def __init__(self, receive: Callable[[signal.Signals], None]) -> None:
        self._receive = receive
        self._previous: dict[signal.Signals, Any] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install the handlers within the block and restore the previous ones; off the main thread do nothing."""
        if threading.current_thread() is not threading.main_thread():
            log.warning("the agent does not run in the main thread: it receives no signals, use stop() to end it")
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
        """Install the handlers again."""
        for number in self._previous:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._receive(signal.Signals(number))


def signals_to_handle() -> list[signal.Signals]:
    """Return the signals of TORCHELASTIC_SIGNALS_TO_HANDLE that can be handled; log a warning for each other one."""
    found = []
    for name in filter(None, map(str.strip, os.environ.get(_VARIABLE, _DEFAULT).split(","))):
        number = signal.Signals.__members__.get(name)
        if number is None or number in _UNCATCHABLE:
            log.warning(
                "%s contains %s, which %s", _VARIABLE, name, "is unknown" if number is None else "cannot be caught"
            )
        else:
            found.append(number)
    return found
