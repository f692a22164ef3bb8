"""Errors that end a node's part in a rendezvous, as a small tree.

RendezvousError
├── RendezvousClosedError        no node can join (any more).
│   ├── JobFailed                the job has failed: its restarts are used up, or a rule ended it.
│   └── Superseded               another pod owns the slot, or this one was evicted for good.
│       └── NoSpec               the job was deleted, or etcd was wiped and has no spec yet.
├── RendezvousTimeoutError       not enough nodes joined in time.
├── RendezvousConnectionError    the backend cannot be reached.
│   └── Unreachable              etcd did not answer within the join time-out.
├── RendezvousStateError         the backend's data is corrupt.
└── RendezvousGracefulExitError  this node's part has ended without a failure.
"""


class RendezvousError(Exception):
    """The rendezvous cannot continue for this node."""


class RendezvousClosedError(RendezvousError):
    """No node can join the rendezvous any more."""


class RendezvousTimeoutError(RendezvousError):
    """The rendezvous did not complete in time."""


class RendezvousConnectionError(RendezvousError):
    """The backend of the rendezvous cannot be reached."""


class RendezvousStateError(RendezvousError):
    """The state of the rendezvous is corrupt."""


class RendezvousGracefulExitError(RendezvousError):
    """This node leaves the rendezvous, and that is not a failure."""


def is_graceful_exit(error: BaseException) -> bool:
    """Whether `error` is a RendezvousGracefulExitError, ours or one of torch's from a handler of torch's."""
    return any(kind.__name__ == RendezvousGracefulExitError.__name__ for kind in type(error).__mro__)


class JobFailed(RendezvousClosedError):
    """The job has failed; the message names the root cause."""


class Superseded(RendezvousClosedError):
    """This node is no longer part of the job."""


class NoSpec(Superseded):
    """There is no spec, and another process should have written one."""


class Unreachable(RendezvousConnectionError):
    """Etcd did not answer in time."""
