"""Identifies the store at the other end by its answers' headers: a wiped or restored etcd must be noticed.

A watch at a "future" revision of a restored store receives nothing for ever, and compare-and-swap on revisions of
another store is meaningless. So every request takes an `Epoch` when it is sent, and its answer is checked against it.
Another cluster id, or a revision below one known *when the request was sent*, is a new *generation*. The call raises
`StoreReset`, as does each other call and watch that began before. Then the new store is accepted. Answers that overtook
each other do not count: only the revision known at the sending does.
"""

from dataclasses import dataclass

from elasticjob_etcd.errors import StoreReset


@dataclass(frozen=True, slots=True)
class Epoch:
    """The known state of the store at one moment."""

    generation: int
    revision: int


class StoreEpochTracker:
    """The store that one client uses; one event loop, no locks."""

    def __init__(self) -> None:
        self._cluster_id = 0
        self._revision = 0
        self._generation = 0

    def epoch(self) -> Epoch:
        """Return the epoch that the answer of a request sent now is checked against."""
        return Epoch(self._generation, self._revision)

    def check(self, cluster_id: int, revision: int, sent: Epoch) -> None:
        """Check an answer that cannot lag behind (every linearizable one); raise `StoreReset`."""
        self.check_cluster(cluster_id, sent)
        if revision < sent.revision:
            self._accept(cluster_id, revision)
            message = f"etcd is at revision {revision} after {sent.revision}: it was restored or wiped"
            raise StoreReset(message)
        self._cluster_id = cluster_id
        self._revision = max(self._revision, revision)

    def check_cluster(self, cluster_id: int, sent: Epoch) -> None:
        """Check an answer whose revision may lag: that of a stream, from a member that is not up to date."""
        if sent.generation != self._generation:
            raise StoreReset("etcd was wiped, restored or replaced while an answer was awaited")
        if self._cluster_id not in {0, cluster_id}:
            message = f"etcd answers as cluster {cluster_id:x}, after {self._cluster_id:x}: another store"
            self._accept(cluster_id, 0)
            raise StoreReset(message)

    def observe(self, revision: int) -> None:
        """Note the revision of a watched event: no later answer may be older."""
        self._revision = max(self._revision, revision)

    def _accept(self, cluster_id: int, revision: int) -> None:
        self._cluster_id, self._revision = cluster_id, revision
        self._generation += 1
