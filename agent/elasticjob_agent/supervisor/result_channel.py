"""The parent's end of a function worker's channel: it reads the one answer, of any size, in the event loop.

function_worker.py defines the format. `outcome` always resolves: with the answer as soon as its last byte is here. If
the channel or the worker has ended before, it resolves with None. A grandchild that holds the channel open causes no
delay.

A pickle from a worker is not trusted here: only a caller that asks for the value unpickles it.
"""

import asyncio
import json
import os
import pickle
import socket
from dataclasses import dataclass
from typing import Any

from elasticjob_agent.supervisor import fd_registry, function_worker

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FunctionOutcome:
    """How a function ended, as its worker reported it."""

    kind: str
    """One of the kinds in function_worker.py."""
    payload: bytes

    @property
    def is_value(self) -> bool:
        """Whether the function returned. This counts only if the process then exits with 0."""
        return self.kind == function_worker.VALUE

    def value(self) -> Any:
        """Return the value of the function. Unpickling runs the user's code and may raise anything."""
        return pickle.loads(self.payload)  # noqa: S301 - the worker runs our user's own code

    @property
    def describe(self) -> dict[str, str]:
        """Return `type`, `text` and `traceback` of the exception; for all kinds but a value."""
        fields: dict[str, str] = json.loads(self.payload)
        return fields


class ResultChannel:
    """One worker's channel."""

    def __init__(self, fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[FunctionOutcome | None] = self._loop.create_future()
        self._fd = fd_registry.register(fd)
        self._data = bytearray()
        self._released = False
        self._loop.add_reader(fd, self._read)

    @classmethod
    def open(cls) -> "tuple[ResultChannel, int]":
        """Return a channel and the descriptor for its worker, which the caller closes."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return cls(ours.detach()), theirs.detach()

    def release(self) -> None:
        """Let a worker that waits after its answer continue; may be called at any time."""
        if self._fd >= 0 and not self._released:
            self._released = True
            try:
                os.write(self._fd, b"\n")
            except OSError:  # it has ended already
                return

    def worker_ended(self) -> None:
        """Read the rest after the worker's death: all that it sent is here, and nothing more will come."""
        while self._fd >= 0 and self._read():
            pass
        self._finish()

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except ConnectionError:  # it died with our release unread
            data = b""
        if not data:
            self._finish()
            return False
        self._data += data
        self._settle()
        return True

    def _settle(self) -> None:
        """Resolve `outcome` if the answer is complete."""
        header = function_worker.HEADER_BYTES
        if self.outcome.done() or len(self._data) < header:
            return
        if len(self._data) >= header + int.from_bytes(self._data[1:header], "big"):
            self.outcome.set_result(FunctionOutcome(chr(self._data[0]), bytes(memoryview(self._data)[header:])))
            self._data = bytearray()

    def _finish(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            fd_registry.close(self._fd)
            self._fd = -1
        if not self.outcome.done():
            self.outcome.set_result(None)
