"""Errors between this project and etcd, as one tree.

    EtcdError
    ├── Unavailable          no answer, or not in time; the outcome of a write is unknown
    │   └── NoSpace          etcd's database is full: writes fail until space is freed
    ├── RequestRejected      etcd rejected it: permission, authentication, certificate, quota, a malformed request
    ├── Compacted            the requested revision is compacted: list again, then watch from the list's revision + 1
    ├── RelistRequired       a watch has a gap, although no history is lost: list again
    ├── StoreReset           another cluster id or an older revision: the store was wiped or restored
    ├── LeaseNotFound        a put has a lease that does not exist (any more)
    ├── BadEndpoint          an address or certificate file that cannot be used; nothing was sent
    ├── Forked               this process was forked from one that used gRPC; nothing was sent
    └── ServerError          an embedded etcd process could not be started
        └── BinaryNotFound   no etcd binary was found; the message names the cure

gRPC's own errors never leave this package.
"""


class EtcdError(Exception):
    """An error of etcd, or of the connection to it."""


class Unavailable(EtcdError):
    """No answer in time. Whether a write took place is unknown: read, and compare the nonce of the record."""


class NoSpace(Unavailable):
    """etcd's database has reached its quota: it answers reads and rejects writes; this write has not taken place."""


class RequestRejected(EtcdError):
    """etcd rejected the request, and would again: permission, certificate, quota, malformed request."""


class Compacted(EtcdError):
    """The requested revision has been compacted."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"revision is compacted; the oldest left is {compact_revision}")
        self.compact_revision = compact_revision


class RelistRequired(EtcdError):
    """A watch has not delivered everything, although etcd has lost no history: list again."""


class StoreReset(EtcdError):
    """Another store than before: another cluster id, or a revision lower than a known one.

    Raised once to every call and watch that spans the change; later ones use the new store. A write that raises it may
    have taken place, in the new store.
    """


class LeaseNotFound(EtcdError):
    """The lease named in a put does not exist."""


class BadEndpoint(EtcdError):
    """The endpoint cannot be used as written: an address that is not host:port, a certificate file unreadable."""


class Forked(EtcdError):
    """This process was forked from one that had a client; gRPC does not survive a fork, and would wait for ever."""


class ServerError(EtcdError):
    """An embedded etcd process did not start, or did not answer."""


class BinaryNotFound(ServerError):
    """No etcd binary was found."""
