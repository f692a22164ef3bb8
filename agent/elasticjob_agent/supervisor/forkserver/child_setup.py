"""Between fork and exec: how the new process becomes the worker.

It runs in the forked child only, with every signal blocked, and never returns. What goes wrong is written to the
handshake pipe as `ERRNO STAGE`; the pipe closes by itself when the exec succeeds. Every descriptor of the starter
but 0, 1 and 2 is close-on-exec, so the worker has no other than those that were promised to it.

Instead of executing a command, a worker may go on in this very process (`Run`): so function workers are forked from
an interpreter that has everything loaded. Then what an exec would have done is done by hand.
"""

import errno
import fcntl
import os
import signal

from . import prctl

TYPE_CHECKING = False
"""As typing has it, for type checkers; to import typing would be a third of the starter's start."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Run = Callable[["ChildSetup"], None]


class ChildSetup:
    """What a worker has when all is set up."""

    __slots__ = ("argv", "env", "extras", "handshake")

    def __init__(self, argv: "list[bytes]", env: "dict[bytes, bytes]", *, extras: "list[int]", handshake: int) -> None:
        self.argv = argv
        self.env = env
        self.extras = extras
        """The descriptors that were promised to it, under any number."""
        self.handshake = handshake
        """Closing it says that the worker runs."""


def setup_child(
    *,
    command_fd: int,
    stdout: int,
    stderr: int,
    extras: "list[int]",
    handshake: int,
    server_pid: int,
    changed_signals: "list[int]",
    own_fds: "list[int]",
    run: "Run",
) -> "NoReturn":
    """Turn this forked process into its command.

    Args:
        command_fd: a memory file, see wire.py for its fields.
        stdout: what becomes descriptor 1.
        stderr: what becomes descriptor 2.
        extras: further descriptors of the worker.
        handshake: where to say what went wrong.
        server_pid: the process that must still be the parent.
        changed_signals: signals whose disposition the starter has changed or inherited; they go back to the default.
        own_fds: descriptors of the starter, which are closed.
        run: the last step.
    """
    stage = "setup"
    try:
        os.setsid()
        prctl.signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != server_pid:
            os._exit(1)  # the starter died before the line above: nobody is left who would be told
        cpus, cwd, argv, env = read_command(command_fd)
        _install_streams(stdout, stderr)
        signal.set_wakeup_fd(-1)
        for fd in own_fds:
            os.close(fd)
        for signum in changed_signals:
            signal.signal(signum, signal.SIG_DFL)
        # Only now may a signal arrive: a stop that came since the fork takes effect here, at the default.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "cpus"
        if cpus:
            os.sched_setaffinity(0, cpus)
        stage = "cwd"
        if cwd:
            os.chdir(cwd)
        stage = "exec"
        run(ChildSetup(argv, env, extras=extras, handshake=handshake))
    except OSError as error:
        os.write(handshake, f"{error.errno} {stage}".encode("ascii"))
    except BaseException:
        os.write(handshake, f"{errno.EINVAL} {stage}".encode("ascii"))
        raise
    finally:
        os._exit(127)


def execute(setup: ChildSetup) -> None:
    """Execute the command; the promised descriptors are 3, 4 and so on."""
    above = 3 + len(setup.extras)
    # Copies first, above the places that are filled: no source and not the handshake may lie in one of them.
    handshake = fcntl.fcntl(setup.handshake, fcntl.F_DUPFD_CLOEXEC, above)
    sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in setup.extras]
    for place, source in enumerate(sources, 3):
        os.dup2(source, place)
    try:
        os.execvpe(setup.argv[0], setup.argv, setup.env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(handshake, f"{error.errno} exec".encode("ascii"))
        os._exit(127)


def _install_streams(stdout: int, stderr: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for fd in {null, stdout, stderr} - {0, 1, 2}:
        os.close(fd)


def read_command(fd: int) -> "tuple[list[int], bytes, list[bytes], dict[bytes, bytes]]":
    """Processors, working directory, arguments and environment, out of a memory file; its descriptor is closed."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        cpus, cwd, argc, *fields = file.read().split(b"\0")
    argv, env = fields[: int(argc)], fields[int(argc) :]
    return [int(each) for each in cpus.split(b",") if each], cwd, argv, dict(entry.split(b"=", 1) for entry in env)
