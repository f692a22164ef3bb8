"""Errors of starting and supervising processes.

    SupervisorError                the base; also: the supervisor is closed
    └── StartError                 a worker could not be started; none of its batch is left running
        ├── CommandNotFound        exit code 127: no such command on the worker's own PATH
        ├── CommandNotExecutable   exit code 126: it is there, but cannot be executed
        └── StarterLost            the starter process is gone or never came up; the next spawn makes a new one

How a worker *ends* is never an exception: it is the record `Exit`.
"""


class SupervisorError(Exception):
    """Base of this package's errors."""


class StartError(SupervisorError):
    """A worker could not be started, so its whole batch was not."""

    errno = 0
    """The system's reason, if it gave one."""
    exit_code = 126
    """What a shell would have answered for it, for programs that must end with a code."""


class CommandNotFound(StartError):
    """No such command: neither the path that was given nor any folder of the worker's PATH has it."""

    exit_code = 127

    def __init__(self, message: str, *, command: str = "", path: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.path = path


class CommandNotExecutable(StartError):
    """The command is there but the kernel refuses to execute it."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class ForkServerLost(StartError):
    """The starter process, which forks the workers, is gone or did not come up."""
