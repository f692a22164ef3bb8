"""The interface of etcd for the rest of the project, and the guarantees of each answer.

`client.EtcdClient` is the real one, `memory.InMemoryEtcd` the in-memory one; both pass the same contract
tests. Everything is asyncio. Nothing here retries a write: the caller must resolve an unknown outcome
(`errors.Unavailable`). Keys are text, values bytes. A missing key has create, mod revision and version 0,
exactly as etcd compares it.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key at some revision; `lease` is 0 without one."""

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
    """The side of a key that a comparison uses."""

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
    """Return the condition that the key does not exist."""
    return Compare(key, Target.CREATE, 0)


def unchanged(key: str, mod_revision: int) -> Compare:
    """Return the condition that the key has this revision; 0: that it does not exist."""
    return Compare(key, Target.MOD, mod_revision)


def leased(key: str, lease: int) -> Compare:
    """Return the condition that the key exists with this lease: no other client wrote it, and it was not deleted."""
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
    """If all comparisons are true, `success` runs, else `failure`; either way in one revision.

    At most 128 comparisons and 128 operations a branch. Operations run in order, and reads see the writes
    before them; one branch may not write a key twice. Only the leases of the branch that runs must exist.
    """

    compares: tuple[Compare, ...]
    success: tuple[Op, ...]
    failure: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnResult:
    """The branch that ran, and the answers of its `Get` operations in order."""

    succeeded: bool
    revision: int
    reads: tuple[tuple[KeyValue, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; for a deleted key only `key` and `mod_revision` (that of the deletion) are set."""

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
    """A granted lease; `ttl_s` is the time that etcd granted, which may be longer than requested (2 s at least)."""

    id: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of etcd and the files for a connection to it.

    Targets are `host:port`. Several must be IP addresses of one family (the channel tries them in order). One may be a
    host name that resolves to all. `unix:PATH` is a socket on this machine. `ca_cert`, `cert` and `key` are PEM
    files; any of them means TLS.
    `timeout_s` bounds every single call.
    """

    targets: tuple[str, ...]
    ca_cert: str | None = None
    cert: str | None = None
    key: str | None = None
    timeout_s: float = field(default=3.0)


class WatchableEtcd(Protocol):
    """The reads that a mirror needs."""

    async def range(self, prefix: str) -> Range:
        """Read all keys that start with `prefix` (linearizable)."""

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Yield every change of keys under `prefix` from `start_revision` on, each once, in order.

        `start_revision` is 1 + that of an answer; a store before that revision raises `StoreReset`. With 0 it begins
        now: the first batch then has no events, and its `revision` is the last one that this watch will not deliver.
        etcd sends changes to such a watch at once, but up to 100 ms late to one that begins before the store's
        revision. It survives reconnects (resumes after the last batch, back-off 0.1 to 2 s). A caller may send back, by
        `asend`, an awaitable to be awaited before the next batch, which then has more changes. A store may ignore that.
        It ends only by `aclose`, or by `Compacted` (list again), `StoreReset`, `RequestRejected`, and by `Unavailable`
        when the client is closed.
        """


class Etcd(WatchableEtcd, Protocol):
    """One client's view of etcd. Every method may raise `errors.EtcdError` and nothing else of etcd's.

    After `close` every call raises `Unavailable`, and so do the watches that were running.
    """

    async def get(self, key: str) -> KeyValue | None:
        """Read one key (linearizable)."""

    async def txn(self, txn: Txn) -> TxnResult:
        """Run one transaction. After `Unavailable` it may have taken place or not."""

    async def lease_grant(self, ttl_s: float) -> Lease:
        """Grant a lease that lives `ttl_s` seconds (rounded up to whole ones) after each refresh."""

    async def lease_keep_alive(self, lease_id: int) -> float:
        """Refresh once, over a stream that remains open; return the seconds granted, 0.0 if the lease has ended.

        `leases.LeaseKeeper` keeps a lease alive.
        """

    async def lease_revoke(self, lease_id: int) -> bool:
        """End a lease: all its keys are deleted in one revision. Return False if it had ended already."""

    async def close(self) -> None:
        """End streams and connections; idempotent. Leases remain."""


def reads_of(result: TxnResult) -> Sequence[KeyValue]:
    """Return all keys that a transaction read, flattened."""
    return [kv for read in result.reads for kv in read]


class PagedEtcd(Etcd, Protocol):
    """An `Etcd` that also lists in pages, for a reader that does not need all keys at once."""

    def pages(self, prefix: str) -> AsyncGenerator[Range, None]:
        """Yield the keys of `range` in key order, all of one revision; one page at least."""
