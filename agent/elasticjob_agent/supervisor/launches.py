"""How a starter process comes to be: exec'ed small, forked off this very process, or exec'ed with modules preloaded.

All three run the same starter (starter/loop.py) and differ in what a worker of theirs is: a command; a function of
this process's memory; a function that is unpickled in an interpreter with its imports done. A starter gets a session
of its own, so that neither a terminal's Ctrl-C nor a kill of our process group reaches it: it must be there to end
the workers.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from elasticjob_agent.supervisor.errors import StarterLost
from elasticjob_agent.supervisor.function_child import Call, ForkedWorker, clean_exit
from elasticjob_agent.supervisor.starter import loop

_HERE = Path(__file__).parent
_PRELOAD_SERVER = _HERE.parent / "foreign" / "preload_server.py"


class StarterProcess(Protocol):
    """What a link needs of the process: `subprocess.Popen` has it."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Reap it; return its exit code."""

    def kill(self) -> None:
        """SIGKILL it."""


class Launch(Protocol):
    """One way to start a starter."""

    what: str
    """What messages call it."""
    start_s: float
    """Seconds for it to come up."""

    def start(self, theirs: socket.socket) -> StarterProcess:
        """Start it with its end of the socket."""


class ExecStarter:
    """A fresh interpreter with nothing but the starter: for commands."""

    what = f"the starter ({sys.executable})"
    start_s = 30.0
    """It takes hundredths of one, so only a machine that hangs needs this."""

    def start(self, theirs: socket.socket) -> StarterProcess:
        """Exec it; StarterLost if that fails."""
        # -I and -S: nothing of the agent's environment or of installed packages has a say, and it is up in no time.
        return _execute([sys.executable, "-I", "-S", str(_HERE / "starter")], theirs)


class PreloadStarter:
    """The user's own Python with these modules imported: for functions, start method `forkserver`."""

    start_s = 600.0
    """Imports from a cold network disk take minutes."""

    def __init__(self, python: Sequence[str], preload: Sequence[str]) -> None:
        self._python = python
        self._preload = list(preload)
        self.what = f"the fork server ({python[0]}, preload {', '.join(preload) or 'nothing'})"

    def start(self, theirs: socket.socket) -> StarterProcess:
        """Exec it; StarterLost if that fails. What it cannot import it says itself."""
        plan = json.dumps({"preload": self._preload, "sys_path": sys.path, "supervisor": str(_HERE)})
        return _execute([*self._python, str(_PRELOAD_SERVER), plan], theirs)


class ForkStarter:
    """A fork of this process, which forks the workers: for functions, start method `fork`.

    The fork in between lets the workers' whole trees be known and ended like all others'.
    """

    what = "the fork of this process"
    start_s = 30.0

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls

    def start(self, theirs: socket.socket) -> StarterProcess:
        """Fork it; StarterLost if that fails."""
        agent_pid = os.getpid()
        flush_streams()
        try:
            with warnings.catch_warnings():
                # Since 3.12; the caller has chosen to fork, and must not see this as an error after the fork is done.
                warnings.filterwarnings(
                    "ignore", message=".* is multi-threaded, use of fork", category=DeprecationWarning
                )
                pid = os.fork()
                if pid == 0:
                    self._serve(theirs, agent_pid)
        except OSError as error:
            raise StarterLost(f"cannot fork: {error.strerror}") from error
        return _Forked(pid)

    def _serve(self, theirs: socket.socket, agent_pid: int) -> NoReturn:
        # Everything of ours was closed by descriptors.py, and this thread is the only one now.
        try:
            os.setsid()
            while (null := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - a caller may have closed 0, 1 or 2
                os.set_inheritable(null, True)
            os.close(null)
            loop.serve(theirs, agent_pid, ForkedWorker(self._calls))
        except BaseException:  # noqa: BLE001 - nothing above this frame is ours to return to
            traceback.print_exc()
        finally:
            clean_exit(70)


class _Forked:
    """A forked process with the face of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Reap it; return its exit code."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """SIGKILL it: it is not reaped, so the pid is its own."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def flush_streams() -> None:
    """Flush what is buffered, so that a forked child cannot write it a second time."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):  # None, closed, or broken: then nothing is written twice
            continue


def _execute(command: list[str], theirs: socket.socket) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [*command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise StarterLost(f"cannot run the starter ({command[0]}): {error.strerror}") from error
