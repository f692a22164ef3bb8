"""Search for processes that a test left running: by a marker in environment or arguments, and by ancestry.

A process can drop its environment and leave its session, but not its ancestors. During a census the test process is a
subreaper, so orphans become its children. Zombies count, except those that only wait for the test process itself.
"""

import ctypes
import os
import signal
import uuid
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

MARKER = "ELASTICJOB_TEST_CENSUS"
_PR_SET_CHILD_SUBREAPER = 36


class Census:
    """All processes that were started since it began; a context manager that leaves none behind."""

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self._before: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        _set_subreaper(on=True)
        self._before = set(psutil.Process().children(recursive=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self.found():
            with suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        for process in psutil.Process().children():
            if process not in self._before:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, 0)
        _set_subreaper(on=False)

    def found(self, *, besides: int | None = None) -> list[psutil.Process]:
        """Return all of them that exist now, except the fork server with the pid `besides`."""
        ours = set(psutil.Process().children(recursive=True)) | set(filter(self._marked, psutil.process_iter()))
        return [each for each in ours - self._before if each.pid != besides and not _is_ours_to_reap(each)]

    def _marked(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get(MARKER) == self.token or self.token in process.cmdline()
        return False


def _is_ours_to_reap(process: psutil.Process) -> bool:
    """Whether it is the test process, or a zombie that was reparented to it: the end of the census reaps that."""
    if process.pid == os.getpid():
        return True
    try:
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() == os.getpid()
    except psutil.NoSuchProcess:
        return True


def _set_subreaper(*, on: bool) -> None:
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0
