"""The writer process of one keeper, and the socket to it: commands with replies, and replacement.

One thread owns the process. A writer that makes no progress for a minute waits for a file system that does not answer.
It is killed, its commands fail, and another one is started after a pause. Nothing waits for its end: a process that
hangs in the kernel ends only when the file system answers.
"""

import collections
import contextlib
import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from elasticjob_agent.keep.persist.errors import PersistError, WriterLost
from elasticjob_agent.keep.persist.messages import (
    LINE_LIMIT,
    CancelCommand,
    Command,
    WriterAnswer,
    decode_answer,
    encode_command,
)

STALL_S = 60.0
"""Seconds without progress after which a writer is given up."""
MOST_HUNG = 4
"""So many writers that SIGKILL does not end are left behind. No further one is started until one of them ends."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_REAP_S = 1.0
_READ_BYTES = 1 << 18

OnEnd = Callable[[WriterAnswer], None]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PendingCommand:
    command: Command
    on_end: OnEnd


class WriterProcess:
    """The writer for one directory."""

    def __init__(
        self, shared: str, job: str, *, stall_s: float = STALL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """It is started with the first command."""
        self._arguments = (shared, job)
        self._stall_s = stall_s
        self._clock = clock
        self._lock = threading.Lock()
        self._number = 0
        self._queued: collections.deque[int] = collections.deque()
        self._pending: dict[int, _PendingCommand] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ended: list[subprocess.Popen[bytes]] = []
        """Processes that were killed. They may hang in the kernel, so nothing waits for them."""
        self._partial = b""
        self._unsent = bytearray()
        self._sign_s = 0.0
        self._start_at_s = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._later: list[tuple[float, Callable[[], None]]] = []
        """When to call which function."""
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # The kernel ends the writer with the thread that has started it, so this one lasts as long as the keeper.
        threading.Thread(target=self._run, name="persist", daemon=True).start()

    def send(self, command: Command, on_end: OnEnd = lambda _: None) -> None:
        """Send a command; `on_end` gets its reply from the thread, with an error if the writer is lost."""
        with self._lock:
            self._number += 1
            self._pending[self._number] = _PendingCommand(command, on_end)
            self._queued.append(self._number)
        os.eventfd_write(self._wakeup, 1)

    def cancel_writes(self) -> None:
        """End all writes that were commanded so far."""
        self.send(CancelCommand())

    def call_later(self, pause_s: float, act: Callable[[], None]) -> None:
        """Call this function from the thread after a pause: the system may have no thread left for a timer."""
        with self._lock:
            self._later.append((self._clock() + pause_s, act))
        os.eventfd_write(self._wakeup, 1)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                self._step()
            except Exception as error:  # a fault of one command must not end all later ones
                log.exception("the writer of persisted steps is replaced")
                self._lose(f"the writer is replaced: {error}")

    def _step(self) -> None:
        now_s = self._clock()
        self._call_due(now_s)
        self._ended = [process for process in self._ended if process.poll() is None]
        if self._pending and self._socket is None and now_s >= self._start_at_s:
            self._start(now_s)
        if self._awaits_answer() and now_s - self._sign_s >= self._stall_s:
            self._lose(f"the file system has not answered for {self._stall_s:g} s")
            return
        self._send_queued()
        with selectors.PollSelector() as selector:
            selector.register(self._wakeup, selectors.EVENT_READ)
            if self._socket is not None:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
                selector.register(self._socket, events)
            selector.select(self._timeout_s(now_s))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        self._receive()

    def _call_due(self, now_s: float) -> None:
        with self._lock:
            due = [act for at_s, act in self._later if at_s <= now_s]
            self._later = [(at_s, act) for at_s, act in self._later if at_s > now_s]
        for act in due:
            act()

    def _awaits_answer(self) -> bool:
        """Return whether the writer has a command; one that is still queued does not count."""
        with self._lock:
            return self._socket is not None and len(self._pending) > len(self._queued)

    def _timeout_s(self, now_s: float) -> float | None:
        times = [at_s for at_s, _ in self._later]
        if self._pending:
            times.append(self._start_at_s if self._socket is None else self._sign_s + self._stall_s)
        elif self._ended:
            times.append(now_s + _REAP_S)
        return max(0.0, min(times) - now_s) if times else None

    def _start(self, now_s: float) -> None:
        if len(self._ended) >= MOST_HUNG:
            hung = f"{MOST_HUNG} processes hang in {self._arguments[0]}, and SIGKILL does not end them"
            self._fail(f"{hung}; no further one is started until one ends: repair its mount, or reboot the node", now_s)
            return
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", "elasticjob_agent.keep.persist", str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    [*command, str(os.getpid()), *self._arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                self._fail(f"cannot start a writer ({sys.executable}): {error.strerror}", now_s)
                return
        ours.setblocking(False)
        self._socket, self._partial, self._sign_s = ours, b"", now_s
        self._unsent = bytearray()
        with self._lock:
            self._queued = collections.deque(self._pending)

    def _send_queued(self) -> None:
        if self._socket is None:
            return
        with self._lock:
            if self._queued and len(self._queued) == len(self._pending):
                self._sign_s = self._clock()  # it was idle until now
            for number in self._queued:
                self._unsent += encode_command(number, self._pending[number].command)
            self._queued.clear()
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._lose("the process that writes it has ended")
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > LINE_LIMIT:
            raise PersistError(f"a line has more than {LINE_LIMIT} bytes")
        for line in lines:
            self._accept(decode_answer(line))

    def _accept(self, reply: WriterAnswer) -> None:
        self._sign_s = self._clock()
        self._pause_s = _FIRST_PAUSE_S
        if not reply.is_end:
            return
        with self._lock:
            pending = self._pending.pop(reply.command, None)
        if pending is not None:
            pending.on_end(reply)

    def _lose(self, why: str) -> None:
        """Give the writer up, and fail all its commands."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._ended.append(self._process)
            self._process = None
        self._fail(why, self._clock())

    def _fail(self, why: str, now_s: float) -> None:
        self._start_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        with self._lock:
            failed, self._pending = self._pending, {}
            self._queued.clear()
        for number, pending in failed.items():
            pending.on_end(WriterAnswer(number, error=str(WriterLost(why))))
