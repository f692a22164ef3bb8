"""Errors of starting and supervising processes.

    SupervisorError                the base; also: the supervisor is closed
    └── StartError                 a worker could not be started; no worker of its batch is left running
        ├── CommandNotFound        exit code 127: no such command on the worker's own PATH
        ├── CommandNotExecutable   exit code 126: the command exists, but cannot be executed
        ├── PreforkedWorkerLost    a worker that was forked ahead ended before it took its command; start it cold
        └── ForkServerLost         the fork server has ended or did not start; the next spawn starts a new one

The *end* of a worker is never an exception: it is the record `Exit`.
"""


class SupervisorError(Exception):
    """Base of this package's errors."""


class StartError(SupervisorError):
    """A worker could not be started, and so no worker of its batch was."""

    errno = 0
    """The error number of the system, or 0 if there was none."""
    exit_code = 126
    """The exit code that a shell returns for this error, for programs that must end with a code."""


class CommandNotFound(StartError):
    """The command was found neither at the given path nor in a folder of the worker's PATH."""

    exit_code = 127

    def __init__(self, message: str, *, command: str = "", path: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.path = path


class CommandNotExecutable(StartError):
    """The command exists, but the kernel refuses to execute it."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class ForkServerLost(StartError):
    """The fork server, which forks the workers, has ended or did not start."""


class PreforkedWorkerLost(StartError):
    """A worker that a zygote forked ahead ended, or hung, before it took its command."""
