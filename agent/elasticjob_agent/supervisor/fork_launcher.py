"""A fork server that is a fork of this very process, for functions in its memory: start method `fork`.

Because of this fork in between, the trees of these workers are known and ended like all others. This is a module of its
own because an agent that runs commands does not need its imports.
"""

import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from elasticjob_agent.supervisor.errors import ForkServerLost
from elasticjob_agent.supervisor.forkserver import server
from elasticjob_agent.supervisor.function_worker import Call, ForkedFunctionWorker, clean_exit
from elasticjob_agent.supervisor.launchers import ForkServerProcess


class ForkLauncher:
    """Launches a fork of this process, which forks the workers; a `Launcher`."""

    description = "the fork of this process"
    start_s = 30.0
    batch_s = 30.0

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Fork this process and return the child.

        Raises:
            ForkServerLost: the fork failed.
        """
        agent_pid = os.getpid()
        _flush_streams()
        try:
            with warnings.catch_warnings():
                # Since Python 3.12. The caller chose to fork; as an error, this warning would be raised after the fork.
                warnings.filterwarnings(
                    "ignore", message=".* is multi-threaded, use of fork", category=DeprecationWarning
                )
                pid = os.fork()
                if pid == 0:
                    self._serve(theirs, agent_pid)
        except OSError as error:
            raise ForkServerLost(f"cannot fork: {error.strerror}") from error
        return _ForkedProcess(pid)

    def _serve(self, theirs: socket.socket, agent_pid: int) -> NoReturn:
        # fd_registry.py has closed everything of ours, and this thread is the only one now.
        try:
            os.setsid()
            while (null := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - a caller may have closed 0, 1 or 2
                os.set_inheritable(null, True)
            os.close(null)
            server.serve(theirs, agent_pid, ForkedFunctionWorker(self._calls))
        except BaseException:  # noqa: BLE001 - nothing above this frame is ours to return to
            traceback.print_exc()
        finally:
            clean_exit(70)


class _ForkedProcess:
    """A forked process with the interface of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Reap it and return its exit code."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL. It is not reaped yet, so the pid is still its own."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def _flush_streams() -> None:
    """Flush the buffers, so that a forked child cannot write the same bytes again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):  # None, closed, or broken: then nothing is written twice
            continue
