"""How a starter process comes to be: exec'ed small, exec'ed with modules preloaded, or forked off (fork_launch.py).

All three run the same starter (forkserver/server.py) and differ in their workers: a command; a function that is
unpickled in an interpreter with its imports done; a function of this process's memory. A starter gets a session of its
own, so that neither a terminal's Ctrl-C nor a kill of our process group reaches it. It must be there to end the
workers.
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
    """What a link needs of the process: `subprocess.Popen` has it."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Reap it; return its exit code."""

    def kill(self) -> None:
        """SIGKILL it."""


class Launcher(Protocol):
    """One way to start a starter."""

    description: str
    """What messages call it."""
    start_s: float
    """Seconds for it to come up."""

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Start it with its end of the socket."""


class ExecLauncher:
    """A fresh interpreter with nothing but the starter: for commands."""

    description = f"the starter ({sys.executable})"
    start_s = 30.0
    """It takes hundredths of one, so only a machine that hangs needs this."""

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Exec it; StarterLost if that fails."""
        # -I and -S: nothing of the agent's environment or of installed packages has a say, and it is up in no time.
        return _execute([sys.executable, "-I", "-S", str(_HERE / "forkserver")], theirs)


class PreloadLauncher:
    """The user's own Python with these modules imported: for functions, start method `forkserver`."""

    start_s = 600.0
    """Imports from a cold network disk take minutes."""

    def __init__(self, python: Sequence[str], preload: Sequence[str]) -> None:
        self._python = python
        self._preload = list(preload)
        self.description = f"the fork server ({python[0]}, preload {', '.join(preload) or 'nothing'})"

    def start(self, theirs: socket.socket) -> ForkServerProcess:
        """Exec it; StarterLost if that fails. It reports failed imports itself."""
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
        raise ForkServerLost(f"cannot run the starter ({command[0]}): {error.strerror}") from error
