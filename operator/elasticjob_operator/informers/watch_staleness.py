"""Detection of a watch that no longer delivers all changes: it must deliver each object that a list shows.

A watch can stop without an error, and the operator then seems healthy and does nothing. The proof is an object that a
list shows in an undelivered version, and of which the watch delivers nothing for `DELIVERY_TIMEOUT_S`. This holds even
if the object changes again and again, such as a job whose status the operator writes.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent

DELIVERY_TIMEOUT_S = 120.0
"""Time by which a watch may be behind a list: after a reconnect it delivers thousands of objects one by one."""


class StalenessDetector:
    """The state of one watch, from all of its events and from lists."""

    def __init__(self) -> None:
        self._delivered_versions: dict[str, tuple[str, str]] = {}
        """Uid → the namespace, and the last delivered version."""
        self._missing_since_s: dict[str, tuple[str, float]] = {}
        """Uid → the last delivered version, and the time since which lists show another."""
        self._unlisted: set[str] = set()

    def start(self, listed: Iterable[Object]) -> None:
        """Record that the watch delivers only changes after this list."""
        self._delivered_versions = {objects.uid_of(obj): _namespace_and_version(obj) for obj in listed}

    def delivered(self, event: ObjectEvent) -> None:
        """Record an event of the watch."""
        uid = objects.uid_of(event.object)
        if event.change is Change.DELETED:
            self._delivered_versions.pop(uid, None)
        else:
            self._delivered_versions[uid] = _namespace_and_version(event.object)

    def delivered_in(self, namespaces: AbstractSet[str]) -> set[str]:
        """Return the uids of all objects that were delivered from these namespaces."""
        return {uid for uid, (namespace, _) in self._delivered_versions.items() if namespace in namespaces}

    def undelivered(
        self, listed: Iterable[Object], now_s: float, unlisted: AbstractSet[str] = frozenset()
    ) -> list[str]:
        """Return names of listed objects that the watch should have delivered long ago.

        Args:
            listed: the objects of a list.
            now_s: the time of a monotonic clock.
            unlisted: namespaces that could not be listed; their objects count as existing.
        """
        found = {objects.uid_of(obj): obj for obj in listed}
        self._forget(found.keys() | self.delivered_in(unlisted))
        missed = {}
        for uid, obj in found.items():
            delivered = self._delivered_version(uid)
            if delivered != objects.version_of(obj):
                before, since_s = self._missing_since_s.get(uid, (delivered, now_s))
                missed[uid] = (delivered, since_s if before == delivered else now_s)
        self._missing_since_s = missed
        return sorted(
            objects.name_of(found[uid]) for uid, (_, since_s) in missed.items() if now_s - since_s >= DELIVERY_TIMEOUT_S
        )

    def is_suspect(self) -> bool:
        """Return whether an object is still undelivered since the last list, so that another list may prove a stop."""
        return any(self._delivered_version(uid) == version for uid, (version, _) in self._missing_since_s.items())

    def _delivered_version(self, uid: str) -> str:
        return self._delivered_versions[uid][1] if uid in self._delivered_versions else ""

    def _forget(self, found: set[str]) -> None:
        """Forget objects that two consecutive lists lack; a single list may be older than their creation."""
        unlisted = set(self._delivered_versions) - found
        for uid in unlisted & self._unlisted:
            del self._delivered_versions[uid]
        self._unlisted = unlisted


def _namespace_and_version(obj: Object) -> tuple[str, str]:
    return objects.namespace_of(obj), objects.version_of(obj)
