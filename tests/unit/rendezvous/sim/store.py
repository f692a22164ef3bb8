"""The store of one simulated job: the in-memory one, with backup and restore.

A restored store is another cluster, which continues at far higher revisions: a revision of one store never means
anything in another. A wiped store begins at revision 1 again. There the spec may have the very revision that the
bootstraps of earlier pods have. The integration tests use a real etcd here.
"""

import copy
from typing import Any

from elasticjob_etcd.memory.store import InMemoryStore

_JUMP = 10_000


class SimStore(InMemoryStore):
    """All keys and leases, and those of the last snapshot."""

    def __init__(self, *, revision: int = 1) -> None:
        super().__init__()
        self.revision = revision
        self._saved: tuple[dict[str, Any], dict[int, Any], int] | None = None

    @property
    def is_backed_up(self) -> bool:
        """Whether there is a snapshot."""
        return self._saved is not None

    def back_up(self) -> None:
        """Take a snapshot; it replaces the previous one."""
        self._saved = dict(self._items), copy.deepcopy(self._leases), self.revision

    def restore(self) -> None:
        """Restore the snapshot."""
        assert self._saved is not None, "nothing was backed up"
        items, leases, revision = self._saved
        self.cluster_id += 1
        self._reset()
        self._items, self._leases = dict(items), copy.deepcopy(leases)
        self.revision = self.compact_revision = revision + _JUMP * self.cluster_id
        self._notify()
