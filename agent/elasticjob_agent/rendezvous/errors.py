"""What ends a node's part in a rendezvous from outside, as a small tree.

RendezvousError
├── Superseded       another pod owns the slot, or this one was evicted for good
└── Unreachable      etcd did not answer within the join time-out
"""


class RendezvousError(Exception):
    """The rendezvous cannot go on for this node."""


class Superseded(RendezvousError):
    """This node is no longer part of the job."""


class Unreachable(RendezvousError):
    """Etcd did not answer in time."""
