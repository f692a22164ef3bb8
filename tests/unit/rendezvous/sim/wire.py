"""The connection of one simulated process with the store: late watches, and lost calls.

Every coroutine of the product runs to its end at once. Nothing here waits, so the test chooses the order of the agents.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from elasticjob_etcd.errors import EtcdError, StoreReset, Unavailable
from elasticjob_etcd.interface import KeyValue, Lease, Range, Txn, TxnResult, WatchBatch
from elasticjob_etcd.memory.store import InMemoryStore

T = TypeVar("T")


class Fault(Enum):
    """A fault of the next call."""

    REQUEST_LOST = "it never arrives"
    ANSWER_LOST = "it takes place, its answer is lost"
    LATE = "it is given up, and takes place later"
    CRASH = "the caller ends before it"


class Crashed(Exception):
    """The process ended in the middle of a step."""


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("a simulated step had to wait")


@dataclass
class SimEtcd:
    """An `Etcd` of one process; each of `faults` applies to one of its next calls."""

    store: InMemoryStore
    faults: list[Fault | None] = field(default_factory=list)
    late: list[Callable[[], object]] = field(default_factory=list)
    granted: list[int] = field(default_factory=list)
    cluster_id: int = 0

    def __post_init__(self) -> None:
        self.cluster_id = self.store.cluster_id

    def _call(self, act: Callable[[], T]) -> T:
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.CRASH:
            raise Crashed
        if fault is Fault.LATE:
            self.late.append(act)
        if fault in {Fault.REQUEST_LOST, Fault.LATE}:
            raise Unavailable("simulated")
        result = act()
        if self.cluster_id != self.store.cluster_id:
            self.cluster_id = self.store.cluster_id
            raise StoreReset("simulated: it took place in another store")
        if fault is Fault.ANSWER_LOST:
            raise Unavailable("simulated")
        return result

    def land(self) -> None:
        """Let the oldest call that was given up take place after all; etcd may refuse it."""
        with contextlib.suppress(EtcdError):
            self.late.pop(0)()

    async def get(self, key: str) -> KeyValue | None:
        return self._call(lambda: self.store.get(key))

    async def range(self, prefix: str) -> Range:
        return self._call(lambda: self.store.range(prefix))

    async def txn(self, txn: Txn) -> TxnResult:
        return self._call(lambda: self.store.txn(txn))

    async def lease_grant(self, ttl_s: float) -> Lease:
        return self._call(lambda: self._grant(ttl_s))

    def _grant(self, ttl_s: float) -> Lease:
        lease = self.store.grant(ttl_s)
        self.granted.append(lease.id)
        return lease

    async def lease_keep_alive(self, lease_id: int) -> float:
        return self._call(lambda: self.store.keep_alive(lease_id))

    async def lease_revoke(self, lease_id: int) -> bool:
        return self._call(lambda: self.store.revoke(lease_id))

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        raise AssertionError(f"the simulation has no watches: {prefix} from {start_revision}")

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class LateMirror:
    """A prefix as one process knows it: the test delivers changes, in order, any number at once."""

    failure = None

    def __init__(self, store: InMemoryStore, prefix: str, initial: Range) -> None:
        self.wiped = 0
        self._cluster_id = store.cluster_id
        self._store = store
        self._prefix = prefix
        self.items = {kv.key: kv for kv in initial.kvs}
        self.revision = initial.revision

    @property
    def pending(self) -> bool:
        """Whether some changes are not delivered yet."""
        if self._cluster_id != self._store.cluster_id:
            return True
        return bool(self._store.events_since(self.revision + 1, self._prefix))

    def deliver(self, revisions: int | None = None) -> bool:
        """Deliver so many revisions (None: all) as one change; return whether there was one. A wipe is listed again."""
        if self._cluster_id != self._store.cluster_id:
            self._relist()
            return True
        events = self._store.events_since(self.revision + 1, self._prefix)
        wanted = sorted({event.kv.mod_revision for event in events})[:revisions]
        for event in events:
            if event.kv.mod_revision not in wanted:
                continue
            if event.deleted:
                self.items.pop(event.kv.key, None)
            else:
                self.items[event.kv.key] = event.kv
        if wanted:
            self.revision = wanted[-1]
        return bool(wanted)

    def _relist(self) -> None:
        listed = self._store.range(self._prefix)
        self.items, self.revision = {kv.key: kv for kv in listed.kvs}, listed.revision
        self._cluster_id = self._store.cluster_id
        self.wiped += 1
