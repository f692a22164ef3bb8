"""Ways to launch a fork server: exec a small one, exec one with preloaded modules, or fork (fork_launcher.py).

All three run the same server (forkserver/server.py) and differ in their workers. These run a command, a function
unpickled in an interpreter with its imports done, or a function in the memory of this process.

A fork server gets a session of its own. So neither Ctrl-C at a terminal nor a kill of our process group reaches it, and
it can end the workers.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from elasticjob_agent.supervisor.errors import ForkServerLost

_HERE = Path(__file__).parent
_PRELOAD_SERVER = _HERE.parent / "user_python" / "preload_server.py"


class ForkServerProcess(Protocol):
    """The part of `subprocess.Popen` that a client needs."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Reap it and return its exit code."""

    def kill(self) -> None:
        """Send SIGKILL."""


class Launcher(Protocol):
    """One way to launch a fork server."""

    description: str
    """The name of the fork server in messages."""
    start_s: float
    """Seconds that it has to start."""
    batch_s: float
    """Seconds after which it hangs, if it has not forked the workers of a batch."""

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Start it with its end of the socket."""


class ExecLauncher:
    """Launches a fresh interpreter with nothing but the fork server, for commands."""

    description = f"the fork server ({sys.executable})"
    start_s = 30.0
    """Seconds. A start takes hundredths of a second, so only a machine that hangs needs so many."""
    batch_s = 1.5
    """Seconds. It is small, so each fork takes about a millisecond."""

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Exec it.

        Raises:
            ForkServerLost: the exec failed.
        """
        # -I and -S: the agent's environment and installed packages have no effect, and the start is fast.
        return _execute([sys.executable, "-I", "-S", str(_HERE / "forkserver")], theirs)


class PreloadLauncher:
    """Launches the user's own Python with these modules imported, for functions: start method `forkserver`."""

    start_s = 600.0
    """Seconds. Imports from a cold network disk take minutes."""
    batch_s = 30.0
    """Seconds. It is large, so each fork takes longer."""

    def __init__(self, python: Sequence[str], preload: Sequence[str]) -> None:
        self._python = python
        self._preload = list(preload)
        self.description = f"the fork server ({python[0]}, preload {', '.join(preload) or 'nothing'})"

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Exec it; it reports failed imports itself.

        Raises:
            ForkServerLost: the exec failed.
        """
        plan = json.dumps({"preload": self._preload, "sys_path": sys.path, "supervisor": str(_HERE)})
        return _execute([*self._python, str(_PRELOAD_SERVER), plan], theirs)


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
        raise ForkServerLost(f"cannot run the fork server ({command[0]}): {error.strerror}") from error
