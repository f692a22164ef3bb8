"""Between fork and exec: how the new process becomes the worker.

It runs in the forked child only, with every signal blocked, and never returns. What goes wrong is written to the
handshake pipe as `ERRNO STAGE`; the pipe closes by itself when the exec succeeds. Every descriptor of the starter
but 0, 1 and 2 is close-on-exec, so the worker has no other.
"""

import errno
import os
import signal
from typing import NoReturn

from . import prctl


def become(
    *, command_fd: int, stdout: int, stderr: int, handshake: int, starter_pid: int, taken: "list[int]"
) -> NoReturn:
    """Turn this forked process into its command.

    Args:
        command_fd: a memory file, see wire.py for its fields.
        stdout: what becomes descriptor 1.
        stderr: what becomes descriptor 2.
        handshake: where to say what went wrong.
        starter_pid: the process that must still be the parent.
        taken: the signals whose disposition the starter has changed or inherited; they go back to the default.
    """
    stage = "setup"
    try:
        os.setsid()
        prctl.signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != starter_pid:
            os._exit(1)  # the starter died before the line above: nobody is left who would be told
        cwd, argv, env = read_command(command_fd)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        for signum in taken:
            signal.signal(signum, signal.SIG_DFL)
        # Only now may a signal arrive: a stop that came since the fork takes effect here, at the default.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "cwd"
        if cwd:
            os.chdir(cwd)
        stage = "exec"
        os.execvpe(argv[0], argv, env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(handshake, f"{error.errno} {stage}".encode("ascii"))
    except BaseException:
        os.write(handshake, f"{errno.EINVAL} {stage}".encode("ascii"))
        raise
    finally:
        os._exit(127)


def read_command(fd: int) -> "tuple[bytes, list[bytes], dict[bytes, bytes]]":
    """Working directory, arguments and environment, out of a memory file; its descriptor is closed."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        cwd, argc, *fields = file.read().split(b"\0")
    argv, env = fields[: int(argc)], fields[int(argc) :]
    return cwd, argv, dict(entry.split(b"=", 1) for entry in env)
