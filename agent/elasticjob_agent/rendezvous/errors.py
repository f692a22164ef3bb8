"""Errors that end a node's part in a rendezvous from outside, as a small tree.

RendezvousError
├── RendezvousClosedError        nobody can join (any more)
│   ├── JobFailed                the job has failed: its budget is spent, or a rule ended it
│   └── Superseded               another pod owns the slot, or this one was evicted for good
│       └── NothingWanted        there is no spec: the job was deleted, or a wiped etcd has not been told yet
├── RendezvousTimeoutError       not enough nodes came in time
├── RendezvousConnectionError    the backend cannot be reached
│   └── Unreachable              etcd did not answer within the join time-out
├── RendezvousStateError         the backend holds what nobody could have written
└── RendezvousGracefulExitError  this node's part has ended, and nothing is wrong
"""


class RendezvousError(Exception):
    """The rendezvous cannot go on for this node."""


class RendezvousClosedError(RendezvousError):
    """No node can join it any more."""


class RendezvousTimeoutError(RendezvousError):
    """It did not complete in time."""


class RendezvousConnectionError(RendezvousError):
    """Its backend cannot be reached."""


class RendezvousStateError(RendezvousError):
    """Its state is corrupt."""


class RendezvousGracefulExitError(RendezvousError):
    """This node leaves it, and that is not a failure."""


def is_graceful_exit(error: BaseException) -> bool:
    """True for a RendezvousGracefulExitError, also for torch's, which a handler of torch's raises."""
    return any(kind.__name__ == RendezvousGracefulExitError.__name__ for kind in type(error).__mro__)


class JobFailed(RendezvousClosedError):
    """The job has failed; the message names the root cause."""


class Superseded(RendezvousClosedError):
    """This node is no longer part of the job."""


class NoSpec(Superseded):
    """There is no spec where another should have written one."""


class Unreachable(RendezvousConnectionError):
    """Etcd did not answer in time."""
