"""A snapshot of the in-memory store, and its restore: as another cluster, which lives on at far higher revisions.

The jump keeps a revision of one life from meaning anything in another; that they fall together by chance is left out.
"""

import copy
from dataclasses import dataclass
from typing import Any

from elasticjob_etcd.memory_store import MemoryStore

_JUMP = 10_000


@dataclass(frozen=True)
class Backup:
    """All keys and leases of one moment."""

    items: Any
    leases: Any
    revision: int

    @classmethod
    def of(cls, store: MemoryStore) -> "Backup":
        """Take it."""
        return cls(dict(store._items), copy.deepcopy(store._leases), store.revision)

    def restore(self, store: MemoryStore) -> None:
        """Make the store what it was."""
        store.cluster_id += 1
        store._reset()
        store._items = dict(self.items)
        store._leases = copy.deepcopy(self.leases)
        store.revision = self.revision + _JUMP * store.cluster_id
        store.compact_revision = store.revision
        store._tell()
