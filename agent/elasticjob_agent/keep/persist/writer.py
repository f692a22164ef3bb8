"""The writer: the process that alone touches the shared directory, for one keeper.

A file system in a network can stop to answer. A process that waits for it cannot be killed. So neither the agent nor
its keeper touches that directory, and neither waits for this process. Parts are written one after the other; a list or
a check does not wait for them.
"""

import contextlib
import ctypes
import logging
import os
import platform
import queue
import socket
import threading
import time
from pathlib import Path

from elasticjob_agent.keep.persist.errors import DiskFullError, PersistError, WholeStepRefused, WriteCancelledError
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.messages import (
    CancelCommand,
    CheckCommand,
    Command,
    ListCommand,
    RemoveCommand,
    WriteCommand,
    WriterAnswer,
    decode_command,
    encode_answer,
)
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_api.kept_steps import PersistedStep

_NICE = 10
"""Writes yield to the training."""
_PROGRESS_S = 1.0
_MOST_COMPLETED = 4
"""So many unfinished steps are completed at the start. A run leaves one, and the next run removes those before."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_LOWEST_BEST_EFFORT = (2 << 13) | 7

log = logging.getLogger(__name__)


class Writer:
    """Serves one keeper on its socket."""

    def __init__(self, keeper: socket.socket, directory: JobDir) -> None:
        self._keeper = keeper
        self._directory = directory
        self._sending = threading.Lock()
        self._writes: queue.SimpleQueue[tuple[int, WriteCommand]] = queue.SimpleQueue()
        self._cancelled = 0
        """The number of the last command when the last cancellation came: no earlier write goes on."""
        self._id = ""
        self._throttle = Throttle()
        self._reported_s = time.monotonic()
        directory.on_file = self.report_progress

    def run(self) -> None:
        """Serve until the keeper ends; raise PersistError if it sends what is no command."""
        threading.Thread(target=self._write_all, name="persist writes", daemon=True).start()
        # A keeper that ends before it has read all progress resets the connection.
        with contextlib.suppress(ConnectionResetError), self._keeper.makefile("rb") as lines:
            for line in lines:
                self._begin(*decode_command(line))

    def _begin(self, number: int, command: Command) -> None:
        if isinstance(command, CancelCommand):
            self._cancelled = number
            self._throttle.set_rate(None)
            self._send(WriterAnswer(number))
        elif isinstance(command, WriteCommand):
            self._writes.put((number, command))
        else:
            threading.Thread(target=self._run, args=(number, command), daemon=True).start()

    def _write_all(self) -> None:
        while True:
            self._run(*self._writes.get())
            self._empty_trash()

    def _empty_trash(self) -> None:
        """Delete what was thrown away until a further write comes: that may be the last step of a node."""
        try:
            self._directory.empty_trash(self._writes.empty)
        except (PersistError, OSError) as error:  # the next write reports it, if it still is so
            log.warning("what was thrown away in persistTo was not deleted: %s", error)

    def _run(self, number: int, command: Command) -> None:
        began_s = time.monotonic()
        try:
            self._send(self._act(number, command, began_s))
        except PersistError as error:
            self._send(WriterAnswer(number, error=str(error), is_of_step=isinstance(error, WholeStepRefused)))
        except OSError as error:
            self._send(WriterAnswer(number, error=f"{self._directory.path}: {error.strerror or error}"))

    def _act(self, number: int, command: Command, began_s: float) -> WriterAnswer:
        match command:
            case ListCommand():
                return self._list(number)
            case WriteCommand():
                self._write(number, command)
                listed = self._list(number)
                return WriterAnswer(number, id=listed.id, steps=listed.steps, seconds=time.monotonic() - began_s)
            case CheckCommand(step):
                return WriterAnswer(number, directory=os.fspath(self._directory.check_whole(step)))
            case RemoveCommand(steps, kept):
                known = {str(step): step for step in self._directory.whole_steps()}
                if known.keys() >= {*kept}:  # else a person has removed a newer step, for which these were to go
                    self._directory.remove_whole([known[text] for text in steps if text in known])
                    self._directory.empty_trash()
        return WriterAnswer(number)

    def _list(self, number: int) -> WriterAnswer:
        if not self._id:
            found = self._directory.open()
            self._complete_newest()
            self._id = found
        return WriterAnswer(
            number, id=self._id, steps={str(step): at for step, at in self._directory.whole_steps().items()}
        )

    def _complete_newest(self) -> None:
        """Complete what an earlier writer may have left. A restore waits for this, so there is a bound."""
        try:
            for step in self._directory.unfinished_steps()[:_MOST_COMPLETED]:
                self._complete(step)
        except PersistError as error:  # a write reports it; what is whole can be restored
            log.warning("the unfinished steps in persistTo cannot be listed: %s", error)

    def _complete(self, step: PersistedStep) -> None:
        try:
            self._directory.complete(step)
        except PersistError as error:
            log.warning("an unfinished step in persistTo was not completed: %s: %s", step, error)

    def _write(self, number: int, command: WriteCommand) -> None:
        self._throttle.set_rate(command.rate or None)
        step = command.step
        # A run writes one step after the other, and no other run of this job is alive: what is older never ends.
        others = self._directory.unfinished_steps()
        self._directory.remove_unfinished([each for each in others if each.run != step.run or each.step < step.step])
        try:
            self._write_parts(number, command)
        except DiskFullError:  # what was thrown away may be all the room for this step
            self._directory.empty_trash()
            self._write_parts(number, command)

    def _write_parts(self, number: int, command: WriteCommand) -> None:
        pause = _WriteThrottle(self, number, self._throttle)
        for part in command.parts:
            self._directory.write_part(command.step, part.index, Path(part.path), part.files, pause)
        self._directory.complete(command.step)

    def check(self, number: int) -> None:
        """Raise WriteCancelledError if the write of this number was cancelled."""
        if number < self._cancelled:
            raise WriteCancelledError("the write was ended by another one")

    def report_progress(self) -> None:
        """Let the keeper know that a command goes on, once in a second."""
        if (now_s := time.monotonic()) - self._reported_s >= _PROGRESS_S:
            self._reported_s = now_s
            self._send(WriterAnswer(0, is_end=False))

    def _send(self, reply: WriterAnswer) -> None:
        with self._sending, contextlib.suppress(ConnectionError):  # the keeper has ended, and this process ends soon
            self._keeper.sendall(encode_answer(reply))


class _WriteThrottle:
    """Keeps the rate of one write, reports progress, and ends it when it was cancelled."""

    def __init__(self, writer: Writer, number: int, throttle: Throttle) -> None:
        self._writer = writer
        self._number = number
        self._throttle = throttle

    def __call__(self, wanted: int) -> int:
        self._writer.check(self._number)
        count = min(wanted, self._throttle.piece_bytes)
        self._throttle.wait(count)
        self._writer.report_progress()
        return count


def yield_to_training() -> None:
    """Give this process a low priority for processors and disks; its threads inherit both."""
    os.nice(_NICE)
    if number := _IOPRIO_SET.get(platform.machine()):
        ctypes.CDLL(None).syscall(number, 1, 0, _LOWEST_BEST_EFFORT)
