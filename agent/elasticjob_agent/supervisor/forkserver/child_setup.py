"""The fork of a worker, and the steps between fork and exec that turn the new process into it.

The steps run in the forked child only, with every signal blocked, and never return. An error is written to the
handshake pipe as `ERRNO STAGE`; a successful exec closes the pipe. Every descriptor of the fork server except 0, 1 and
2 is close-on-exec, so the worker has only those that its command lists.

Instead of executing a command, a worker may continue in this very process (`Run`). Function workers are forked so, from
an interpreter with everything loaded. Their setup then does by hand what an exec would have done.
"""

import errno
import fcntl
import os
import signal

from . import prctl

TYPE_CHECKING = False
"""As in typing, for type checkers. An import of typing would take a third of the fork server's start-up time."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Run = Callable[["ChildSetup"], None]


class ChildSetup:
    """The worker's command and descriptors after the setup."""

    __slots__ = ("argv", "env", "extras", "handshake")

    def __init__(self, argv: "list[bytes]", env: "dict[bytes, bytes]", *, extras: "list[int]", handshake: int) -> None:
        self.argv = argv
        self.env = env
        self.extras = extras
        """The further descriptors of the command, under any number."""
        self.handshake = handshake
        """Write end of the handshake pipe. Closing it reports that the worker runs."""


def fork(fds: "list[int]", *, own_fds: "list[int]", changed_signals: "list[int]", run: "Run") -> "tuple[int, int]":
    """Fork a worker; return its pid and the pipe that reports its exec or its error.

    Args:
        fds: its command, stdout, stderr, latch, and others.
        own_fds: as in `setup_child`, without the ends of that pipe.
        changed_signals: as in `setup_child`.
        run: the last step.

    Raises:
        OSError: a limit is reached.
    """
    command, stdout, stderr, latch, *extras = fds
    own_pid = os.getpid()
    read_end, write_end = os.pipe()
    # Block signals until the child has its dispositions: else our own handlers would consume a signal meant for it.
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            setup_child(
                command_fd=command,
                stdout=stdout,
                stderr=stderr,
                latch=latch,
                extras=extras,
                handshake=write_end,
                server_pid=own_pid,
                changed_signals=changed_signals,
                own_fds=[read_end, *own_fds],
                run=run,
            )
    except OSError:
        os.close(read_end)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(write_end)
    return pid, read_end


def setup_child(
    *,
    command_fd: int,
    stdout: int,
    stderr: int,
    latch: int,
    extras: "list[int]",
    handshake: int,
    server_pid: int,
    changed_signals: "list[int]",
    own_fds: "list[int]",
    run: "Run",
) -> "NoReturn":
    """Turn this forked process into its command.

    Args:
        command_fd: a memory file; encode() in forkserver_protocol.py lists its fields.
        stdout: becomes descriptor 1.
        stderr: becomes descriptor 2.
        latch: an eventfd; the worker waits until the agent has written to it.
        extras: further descriptors of the worker.
        handshake: the pipe for the error.
        server_pid: the process that must still be the parent.
        changed_signals: signals whose disposition the fork server changed or inherited; they are set to the default.
        own_fds: descriptors of the fork server, which are closed.
        run: the last step.
    """
    stage = "setup"
    try:
        os.setsid()
        prctl.signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != server_pid:
            os._exit(1)  # the fork server died before the line above, so there is no reader
        cpus, cwd, argv, env = read_command(command_fd)
        _install_streams(stdout, stderr)
        signal.set_wakeup_fd(-1)
        for fd in own_fds:
            os.close(fd)
        for signum in changed_signals:
            signal.signal(signum, signal.SIG_DFL)
        # Signals are delivered from here on: a stop sent since the fork takes effect now, by the default action.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "cpus"
        if cpus:
            os.sched_setaffinity(0, cpus)
        stage = "cwd"
        if cwd:
            os.chdir(cwd)
        os.read(latch, 8)
        os.close(latch)
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
    """Execute the command with its further descriptors as 3, 4 and so on."""
    above = 3 + len(setup.extras)
    # Copy to numbers above the targets first: neither a source nor the handshake may have a target's number.
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
    """Return processors, working directory, arguments and environment from a memory file, and close its descriptor."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        cpus, cwd, argc, *fields = file.read().split(b"\0")
    argv, env = fields[: int(argc)], fields[int(argc) :]
    return [int(each) for each in cpus.split(b",") if each], cwd, argv, dict(entry.split(b"=", 1) for entry in env)
