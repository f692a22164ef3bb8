"""The start of the keeper process."""

import os
import socket
import subprocess
import sys


def start_keeper(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """Start a keeper that serves this socket; raise OSError."""
    # -P: the working directory may have modules with the names of others. The keeper imports what this process imports.
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "elasticjob_agent.keep.keeper", str(theirs.fileno()), str(os.getpid())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
