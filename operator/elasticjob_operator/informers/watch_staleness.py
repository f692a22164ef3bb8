"""Whether a watch still delivers all changes: each object of a list must have come through the watch as well.

A watch can die silently, and then an operator looks healthy and does nothing. The proof is an object that a list showed
in a version that was not delivered, and of which nothing was delivered for `PATIENCE_S` since. It counts also when the
object goes on changing, like a job whose status the operator writes.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent

PATIENCE_S = 120.0
"""After a reconnect the watch hands out thousands of objects one by one: it may be so far behind a list."""


class Freshness:
    """The freshness of one watch; it is given every event and, now and then, a list."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, str]] = {}
        """Uid → the namespace, and the version delivered last."""
        self._missed: dict[str, tuple[str, float]] = {}
        """Uid → the version delivered last, and since when lists show another."""
        self._unlisted: set[str] = set()

    begun = False
    """The watch continues a list, instead of delivering all objects at its own beginning."""

    def begin(self, listed: Iterable[Object]) -> None:
        """Note that the watch delivers only changes after this list."""
        self.begun = True
        self._told = {objects.uid_of(obj): _of(obj) for obj in listed}

    def told(self, event: ObjectEvent) -> None:
        """Note an event of the watch."""
        uid = objects.uid_of(event.object)
        if event.change is Change.DELETED:
            self._told.pop(uid, None)
        else:
            self._told[uid] = _of(event.object)

    def told_of(self, namespaces: AbstractSet[str]) -> set[str]:
        """Return the uids of all objects that were delivered from these namespaces."""
        return {uid for uid, (namespace, _) in self._told.items() if namespace in namespaces}

    def never_told(self, listed: Iterable[Object], now_s: float, unlisted: AbstractSet[str] = frozenset()) -> list[str]:
        """Return names of objects of this list that the watch should have delivered long ago; `now_s` is monotonic.

        Of the namespaces `unlisted` there is no list: nothing in them is gone.
        """
        found = {objects.uid_of(obj): obj for obj in listed}
        self._forget(found.keys() | self.told_of(unlisted))
        missed = {}
        for uid, obj in found.items():
            told = self._version(uid)
            if told != objects.version_of(obj):
                before, since_s = self._missed.get(uid, (told, now_s))
                missed[uid] = (told, since_s if before == told else now_s)
        self._missed = missed
        return sorted(
            objects.name_of(found[uid]) for uid, (_, since_s) in missed.items() if now_s - since_s >= PATIENCE_S
        )

    def doubtful(self) -> bool:
        """Return True if an object that the last list missed has not been delivered yet: another list can prove it."""
        return any(self._version(uid) == told for uid, (told, _) in self._missed.items())

    def _version(self, uid: str) -> str:
        return self._told[uid][1] if uid in self._told else ""

    def _forget(self, found: set[str]) -> None:
        """Forget objects that two lists in a row do not have; one list alone may be older than their creation."""
        unlisted = set(self._told) - found
        for uid in unlisted & self._unlisted:
            del self._told[uid]
        self._unlisted = unlisted


def _of(obj: Object) -> tuple[str, str]:
    return objects.namespace_of(obj), objects.version_of(obj)
