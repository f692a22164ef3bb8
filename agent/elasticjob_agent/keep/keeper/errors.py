"""Errors between the agent and its keeper.

    KeeperError                   the base
    ├── ControlError              a line is malformed or too long
    ├── KeeperLost                the keeper ended before it answered
    ├── KeeperSilentError         the keeper did not answer in time
    └── RequestRefused            the keeper answered that it could not do it
        ├── StepRefused           a step in the shared directory is missing there, or may not be used
        └── HolderUnreachedError  a node that may have a part of the step has not answered

Each is about one request; the next one can succeed.
"""


class KeeperError(Exception):
    """Base of the errors of the control socket."""


class ControlError(KeeperError):
    """A line that is no message of the protocol."""


class KeeperLost(KeeperError):
    """The keeper has ended; another one is started."""


class KeeperSilentError(KeeperError):
    """The keeper did not answer in time."""


class RequestRefused(KeeperError):
    """The keeper could not do what it was asked for."""


class StepRefused(RequestRefused):
    """A step in the shared directory is missing there, or may not be used; the directory itself can be read."""


class HolderUnreachedError(RequestRefused):
    """A node that may have a part of the step has not answered."""
