"""The store behind the in-memory etcd: revisions, transactions, leases, history. Synchronous and deterministic.

It answers as etcd does, down to the malformed transactions that it rejects; a state machine in the tests compares
the two. It has no clock: a lease ends by `revoke` or `expire`, in one revision for all its keys. A transaction is
checked as a whole before any change, so it never takes place in part.
"""

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from elasticjob_etcd.errors import Compacted, LeaseNotFound, RequestRejected
from elasticjob_etcd.interface import (
    Delete,
    Get,
    KeyValue,
    Lease,
    Op,
    Put,
    Range,
    Txn,
    TxnResult,
    WatchEvent,
)
from elasticjob_etcd.memory.validation import check_request, compare_holds

_MAX_TTL_S = 9_000_000_000


@dataclass(slots=True)
class _LeaseState:
    ttl_s: float
    refreshes: int = 0
    keys: set[str] = field(default_factory=set)


class InMemoryStore:
    """The data of one etcd; any number of `InMemoryEtcd` clients share it. Use it from one thread.

    `listeners` are called after each change that a watch may have to deliver, and must not raise.
    """

    def __init__(self, *, min_ttl_s: float = 2.0) -> None:
        self.cluster_id = 1
        self.revision = 1
        self.compact_revision = 0
        self.listeners: set[Callable[[], None]] = set()
        self._min_ttl_s = min_ttl_s
        self._lease_ids = itertools.count(0x10)
        self._reset()

    def _reset(self) -> None:
        self._items: dict[str, KeyValue] = {}
        self._leases: dict[int, _LeaseState] = {}
        self._revisions: list[int] = []  # of _history, for bisecting
        self._history: list[tuple[WatchEvent, ...]] = []

    # Reading.

    def get(self, key: str) -> KeyValue | None:
        """Return one key as it is now."""
        return self._items.get(key)

    def range(self, prefix: str) -> Range:
        """Return all keys that start with `prefix`, sorted."""
        return Range(self._select(Get(prefix, prefix=True)), self.revision)

    def events_since(self, revision: int, prefix: str) -> tuple[WatchEvent, ...]:
        """Return every change under `prefix` from `revision` on, in order; raise `Compacted`."""
        if revision < self.compact_revision:
            raise Compacted(self.compact_revision)
        first = bisect.bisect_left(self._revisions, revision)
        changes = itertools.chain.from_iterable(self._history[first:])
        return tuple(event for event in changes if event.kv.key.startswith(prefix))

    # Writing.

    def txn(self, txn: Txn) -> TxnResult:
        """Run one transaction; raise `RequestRejected` or `LeaseNotFound` without any change."""
        check_request(txn)
        succeeded = all(compare_holds(compare, self._items.get(compare.key)) for compare in txn.compares)
        branch = txn.success if succeeded else txn.failure
        self._require_leases(branch)
        revision = self.revision + 1
        events: list[WatchEvent] = []
        reads = tuple(self._run(op, revision, events) for op in branch)
        self._commit(events)
        answers = tuple(read for op, read in zip(branch, reads, strict=True) if isinstance(op, Get))
        return TxnResult(succeeded=succeeded, revision=self.revision, reads=answers)

    def _require_leases(self, branch: tuple[Op, ...]) -> None:
        for op in branch:
            if isinstance(op, Put) and op.lease and op.lease not in self._leases:
                message = f"put of {op.key}: requested lease {op.lease:x} not found"
                raise LeaseNotFound(message)

    def _run(self, op: Op, revision: int, events: list[WatchEvent]) -> tuple[KeyValue, ...]:
        match op:
            case Get():
                return self._select(op)
            case Put():
                events.append(self._put(op, revision))
            case Delete():
                events.extend(self._remove(kv.key, revision) for kv in self._select(op))
        return ()

    def _select(self, op: Get | Delete) -> tuple[KeyValue, ...]:
        if not op.prefix:
            kv = self._items.get(op.key)
            return (kv,) if kv else ()
        found = [kv for key, kv in self._items.items() if key.startswith(op.key)]
        return tuple(sorted(found, key=lambda kv: kv.key.encode("utf-8", "surrogateescape")))

    def _put(self, op: Put, revision: int) -> WatchEvent:
        old = self._items.get(op.key)
        self._detach(old)
        self._items[op.key] = new = KeyValue(
            key=op.key,
            value=op.value,
            create_revision=old.create_revision if old else revision,
            mod_revision=revision,
            version=old.version + 1 if old else 1,
            lease=op.lease,
        )
        if op.lease:
            self._leases[op.lease].keys.add(op.key)
        return WatchEvent(new)

    def _remove(self, key: str, revision: int) -> WatchEvent:
        self._detach(self._items.pop(key))
        deleted = KeyValue(key=key, value=b"", create_revision=0, mod_revision=revision, version=0)
        return WatchEvent(deleted, deleted=True)

    def _detach(self, kv: KeyValue | None) -> None:
        if kv is not None and kv.lease:
            self._leases[kv.lease].keys.discard(kv.key)

    def _commit(self, events: list[WatchEvent]) -> None:
        if not events:
            return
        self.revision += 1
        self._revisions.append(self.revision)
        self._history.append(tuple(events))
        self._notify()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    # Leases.

    def grant(self, ttl_s: float) -> Lease:
        """Grant a lease; its id is the next of a fixed sequence."""
        if ttl_s > _MAX_TTL_S:
            raise RequestRejected("grant of a lease: too large lease TTL")
        lease = Lease(id=next(self._lease_ids), ttl_s=max(float(math.ceil(ttl_s)), self._min_ttl_s))
        self._leases[lease.id] = _LeaseState(lease.ttl_s)
        return lease

    def keep_alive(self, lease_id: int) -> float:
        """Note a refresh; return the seconds granted, 0.0 if the lease has ended."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return 0.0
        lease.refreshes += 1
        return lease.ttl_s

    def refreshes(self, lease_id: int) -> int | None:
        """Return the number of refreshes of a lease; None if it has ended. The caller's timer compares this."""
        lease = self._leases.get(lease_id)
        return lease.refreshes if lease else None

    def revoke(self, lease_id: int) -> bool:
        """End a lease: its keys are deleted in one revision, in key order. Return False if it had ended already."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return False
        keys = sorted(lease.keys, key=lambda key: key.encode("utf-8", "surrogateescape"))
        events = [self._remove(key, self.revision + 1) for key in keys]
        del self._leases[lease_id]
        self._commit(events)
        return True

    def expire(self, lease_id: int) -> bool:
        """End an expired lease; the same as `revoke`."""
        return self.revoke(lease_id)

    # Events in the life of a store.

    def compact(self, revision: int) -> None:
        """Remove all changes before `revision`; raise as etcd does for a compacted or future revision."""
        if revision <= self.compact_revision:
            raise Compacted(self.compact_revision)
        if revision > self.revision:
            raise RequestRejected("compaction: required revision is a future revision")
        self.compact_revision = revision
        first = bisect.bisect_left(self._revisions, revision)
        del self._revisions[:first], self._history[:first]
        self._notify()

    def wipe(self) -> None:
        """Lose all data, and become another cluster."""
        self.cluster_id += 1
        self.revision, self.compact_revision = 1, 0
        self._reset()
        self._notify()
