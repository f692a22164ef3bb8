"""Whether a watch still delivers all changes: each object of a list must have come through the watch as well.

A watch can die silently, and then an operator looks healthy and does nothing. The proof is an object that a list showed
in a version that was not delivered, and of which nothing was delivered for `DELIVERY_TIMEOUT_S` since. It counts also
when the object goes on changing, like a job whose status the operator writes.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent

DELIVERY_TIMEOUT_S = 120.0
"""After a reconnect the watch hands out thousands of objects one by one: it may be so far behind a list."""


class StalenessDetector:
    """The freshness of one watch; it is given every event and, now and then, a list."""

    def __init__(self) -> None:
        self._delivered_versions: dict[str, tuple[str, str]] = {}
        """Uid → the namespace, and the version delivered last."""
        self._missing_since_s: dict[str, tuple[str, float]] = {}
        """Uid → the version delivered last, and since when lists show another."""
        self._unlisted: set[str] = set()

    started = False
    """The watch continues a list, instead of delivering all objects at its own beginning."""

    def start(self, listed: Iterable[Object]) -> None:
        """Note that the watch delivers only changes after this list."""
        self.started = True
        self._delivered_versions = {objects.uid_of(obj): _namespace_and_version(obj) for obj in listed}

    def delivered(self, event: ObjectEvent) -> None:
        """Note an event of the watch."""
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
        """Return names of objects of this list that the watch should have delivered long ago; `now_s` is monotonic.

        Of the namespaces `unlisted` there is no list: nothing in them is gone.
        """
        found = {objects.uid_of(obj): obj for obj in listed}
        self._forget(found.keys() | self.delivered_in(unlisted))
        missed = {}
        for uid, obj in found.items():
            told = self._delivered_version(uid)
            if told != objects.version_of(obj):
                before, since_s = self._missing_since_s.get(uid, (told, now_s))
                missed[uid] = (told, since_s if before == told else now_s)
        self._missing_since_s = missed
        return sorted(
            objects.name_of(found[uid]) for uid, (_, since_s) in missed.items() if now_s - since_s >= DELIVERY_TIMEOUT_S
        )

    def is_suspect(self) -> bool:
        """Return True if an object that the last list missed has not been delivered yet: another list can prove it."""
        return any(self._delivered_version(uid) == told for uid, (told, _) in self._missing_since_s.items())

    def _delivered_version(self, uid: str) -> str:
        return self._delivered_versions[uid][1] if uid in self._delivered_versions else ""

    def _forget(self, found: set[str]) -> None:
        """Forget objects that two lists in a row do not have; one list alone may be older than their creation."""
        unlisted = set(self._delivered_versions) - found
        for uid in unlisted & self._unlisted:
            del self._delivered_versions[uid]
        self._unlisted = unlisted


def _namespace_and_version(obj: Object) -> tuple[str, str]:
    return objects.namespace_of(obj), objects.version_of(obj)
