"""The store of one simulated job: the in-memory one, that can also be backed up and restored.

What is restored is another cluster, which lives on at far higher revisions: a revision of one life never means
anything in another. What was wiped begins at revision 1 again: there the spec may stand at the very revision that the
pods of an earlier life were told. The integration tests put a real etcd here.
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
        """There is a snapshot."""
        return self._saved is not None

    def back_up(self) -> None:
        """Take a snapshot; it replaces the one before."""
        self._saved = dict(self._items), copy.deepcopy(self._leases), self.revision

    def restore(self) -> None:
        """Be what was backed up."""
        assert self._saved is not None, "nothing was backed up"
        items, leases, revision = self._saved
        self.cluster_id += 1
        self._reset()
        self._items, self._leases = dict(items), copy.deepcopy(leases)
        self.revision = self.compact_revision = revision + _JUMP * self.cluster_id
        self._notify()
