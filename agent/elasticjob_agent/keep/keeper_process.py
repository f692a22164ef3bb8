"""The start of the keeper process."""

import os
import socket
import subprocess
import sys


def start_keeper(theirs: socket.socket, listener: socket.socket | None) -> "subprocess.Popen[bytes]":
    """Start a keeper that serves its agent on `theirs` and peers on `listener`; raise OSError."""
    # -P: the working directory may have modules with the names of others. The keeper imports what this process imports.
    path = os.pathsep.join(each for each in sys.path if each)
    fds = [each.fileno() for each in (theirs, listener) if each is not None]
    control, *peers = map(str, fds)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "elasticjob_agent.keep.keeper", control, str(os.getpid()), *peers],
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
