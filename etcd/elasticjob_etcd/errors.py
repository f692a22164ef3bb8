"""Errors between us and etcd, as one tree.

    EtcdError
    ├── Unavailable          nothing answered, or not in time; the outcome of a write is unknown
    │   └── NoSpace          etcd's database is full: no write takes place until somebody makes room
    ├── Refused              etcd answered no: permission, authentication, certificate, quota, a broken request
    ├── Compacted            the wanted revision is gone: list again, then watch from the list's revision + 1
    ├── ListAgain            a watch lacks something, though no history is lost: list again
    ├── Wiped                another cluster id or an older revision: the store was wiped or restored
    ├── LeaseNotFound        a put named a lease that does not exist (any more)
    ├── BadEndpoint          an address or certificate file that cannot be used; nothing was tried
    ├── Forked               this process was forked from one that spoke gRPC; nothing was tried
    └── ServerError          an embedded etcd process could not be started
        └── BinaryNotFound   no etcd binary anywhere; the message names the cure

gRPC's own errors never leave this package.
"""


class EtcdError(Exception):
    """Anything that etcd, or the way to it, refused or failed."""


class Unavailable(EtcdError):
    """No answer in time; whether a write took place is unknown: read, and look for one's own nonce."""


class NoSpace(Unavailable):
    """Etcd's database has reached its quota: it answers reads and takes no writes; this write has not taken place."""


class RequestRejected(EtcdError):
    """Etcd refused, and will again: permission, certificate, quota, malformed request."""


class Compacted(EtcdError):
    """The revision asked for has been compacted away."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"revision is compacted; the oldest left is {compact_revision}")
        self.compact_revision = compact_revision


class RelistRequired(EtcdError):
    """A watch has not delivered everything, and etcd has lost no history: list again."""


class StoreReset(EtcdError):
    """The store is not the one we knew: other cluster id, or a revision lower than one already seen.

    Raised once to every call and watch that spans the change; later ones use the new store. A write that raises it may
    have taken place, in the new store.
    """


class LeaseNotFound(EtcdError):
    """The lease named in a put does not exist."""


class BadEndpoint(EtcdError):
    """The endpoint cannot be used as written: an address that is not host:port, a certificate file unreadable."""


class Forked(EtcdError):
    """This process was forked from one that had a client; gRPC does not survive that, and would wait for ever."""


class ServerError(EtcdError):
    """An embedded etcd process did not start, or did not answer."""


class BinaryNotFound(ServerError):
    """No etcd binary was found."""
