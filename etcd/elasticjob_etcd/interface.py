"""The interface of etcd for the rest of the project, and the promises of each answer.

`client.EtcdClient` is the real one, `memory.MemoryEtcd` the in-memory one; both pass the same contract
tests. Everything is asyncio; nothing here retries a write: an unknown outcome is the caller's to settle
(`errors.Unavailable`). Keys are text, values bytes. A missing key has create, mod revision and version 0,
exactly as etcd compares it.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as it stood at some revision; `lease` is 0 without one."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The keys of one read in key order, and the store's revision at which they were read."""

    kvs: tuple[KeyValue, ...]
    revision: int


class Target(Enum):
    """The side of a key that a comparison looks at."""

    CREATE = "create_revision"
    MOD = "mod_revision"
    VERSION = "version"
    LEASE = "lease"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Compare:
    """`key`'s target must equal `equals` (int, or bytes for VALUE) for the transaction to succeed."""

    key: str
    target: Target
    equals: int | bytes


def absent(key: str) -> Compare:
    """The key must not exist."""
    return Compare(key, Target.CREATE, 0)


def unchanged(key: str, mod_revision: int) -> Compare:
    """The key must be as last seen; 0 means that it must not exist."""
    return Compare(key, Target.MOD, mod_revision)


def leased(key: str, lease: int) -> Compare:
    """The key must exist under this lease: nobody else's put, and not gone."""
    return Compare(key, Target.LEASE, lease)


@dataclass(frozen=True, slots=True)
class Put:
    """Write a key; `lease` 0 means without one. An unknown lease fails the whole transaction."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one key, or with `prefix` every key that starts with it."""

    key: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """Read one key, or with `prefix` every key that starts with it."""

    key: str
    prefix: bool = False


Op = Put | Delete | Get


@dataclass(frozen=True, slots=True)
class Txn:
    """All comparisons hold → `success` runs, else `failure`; either way in one revision.

    At most 128 comparisons and 128 operations a branch. Operations run in their order, reads see the writes
    before them; one branch may not write a key twice. Only the leases of the branch that runs must exist.
    """

    compares: tuple[Compare, ...]
    success: tuple[Op, ...]
    failure: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Which branch ran, and the answers of its `Get` operations in their order."""

    succeeded: bool
    revision: int
    reads: tuple[tuple[KeyValue, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; of a deleted key only `key` and `mod_revision` (that of the deletion) mean anything."""

    kv: KeyValue
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """All changes of one or more whole revisions, in order; a revision is never split over two batches.

    `revision` is that of the last event: watching again from `revision + 1` misses and repeats nothing.
    """

    events: tuple[WatchEvent, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted lease; `ttl_s` is what etcd granted, which may be more than was asked (2 s at least)."""

    id: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where etcd is and how to connect to it.

    Targets are `host:port`; several must be IP addresses of one family (tried in order by the channel) — or
    name one host that resolves to all. `unix:PATH` is a socket on this machine. `ca_cert`, `cert` and `key` are PEM
    files; any of them means TLS.
    `timeout_s` bounds every single call.
    """

    targets: tuple[str, ...]
    ca_cert: str | None = None
    cert: str | None = None
    key: str | None = None
    timeout_s: float = field(default=3.0)


class Etcd(Protocol):
    """One client's view of etcd. Every method may raise `errors.EtcdError` and nothing else of etcd's.

    After `close` every call raises `Unavailable`, and so do the watches that were running.
    """

    async def get(self, key: str) -> KeyValue | None:
        """Read one key (linearizable)."""

    async def range(self, prefix: str) -> Range:
        """Read all keys that start with `prefix` (linearizable)."""

    async def txn(self, txn: Txn) -> TxnResult:
        """Run one transaction. `Unavailable` leaves open whether it took place."""

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Yield every change of keys under `prefix` from `start_revision` on, each once, in order.

        `start_revision` is 1 + that of an answer; a store that is not that far raises `Wiped`. With 0 it begins now:
        the first batch then has no events, and its `revision` is the last one that this watch will not deliver. Etcd
        sends changes to such a watch at once, but to one that begins behind the store up to 100 ms late. Survives
        reconnects (resumes after the last batch, back-off 0.1 to 2 s). A caller may send back, by `asend`, an awaitable
        to be awaited before the next batch, so that it has more. A store may ignore that. Ends only by `aclose`, or by
        `Compacted` (list again), `Wiped`, `Refused`, and by `Unavailable` when the client is closed.
        """

    async def lease_grant(self, ttl_s: float) -> Lease:
        """Make a lease that lives `ttl_s` seconds (rounded up to whole ones) beyond each refresh."""

    async def lease_keep_alive(self, lease_id: int) -> float:
        """Refresh once, over a stream that is kept open; seconds granted, 0.0 when the lease is gone.

        Keeping a lease alive for long is `leases.LeaseKeeper`'s.
        """

    async def lease_revoke(self, lease_id: int) -> bool:
        """End a lease: all its keys go in one revision. False when it was gone already."""

    async def close(self) -> None:
        """End streams and connections; idempotent. Leases are left to themselves."""


def reads_of(result: TxnResult) -> Sequence[KeyValue]:
    """All keys that a transaction read, flattened."""
    return [kv for read in result.reads for kv in read]


class PagedEtcd(Etcd, Protocol):
    """An `Etcd` that also lists in pieces, for a reader that need not keep all of it."""

    def pages(self, prefix: str) -> AsyncGenerator[Range, None]:
        """Yield what `range` reads, in key order and all of one revision; one page at least."""
