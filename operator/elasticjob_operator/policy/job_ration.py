"""PURE: which specs of jobs the operator keeps in its memory, so that no namespace takes what the others need.

A namespace may have as much as is left free by all: one that takes all it can leaves half of the memory, two leave a
third, and a namespace that comes later always finds some. A job that has begun may go on where a new one is refused,
up to three times as much: which jobs a new operator hears of first does not decide about those that run.
"""

from collections import Counter
from dataclasses import dataclass

BEGUN_SHARE = 3
"""Times of what is left free that a namespace may have in jobs that have begun."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a namespace may have, and the whole, in bytes."""

    kept: int
    whole: int

    def refusal(self, namespace: str) -> str:
        """Why nothing more is kept of this namespace, and what to do about it."""
        return (
            f"is more than the operator keeps of namespace {namespace}, {self.kept >> 20} MiB of {self.whole >> 20}:"
            " delete jobs there, make their specs smaller, or give the operator more (--jobs-memory)"
        )


class JobRation:
    """The memory for the specs of all jobs; by uid."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._kept: dict[str, tuple[str, int]] = {}
        """Uid → namespace and bytes."""
        self._by_namespace: Counter[str] = Counter()

    @property
    def kept(self) -> int:
        """Bytes of all."""
        return self._by_namespace.total()

    def take(self, uid: str, namespace: str, size: int, *, begun: bool) -> Share | None:
        """Keep the spec of this job, in place of an older one. What its namespace may have, if there is no room."""
        before = self._kept.get(uid, (namespace, 0))[1]
        mine, free = self._by_namespace[namespace] - before + size, self._whole - self.kept + before - size
        if size > before and mine > (BEGUN_SHARE if begun else 1) * free:
            self.drop(uid)
            return Share(self._by_namespace[namespace], self._whole)
        self.drop(uid)
        self._kept[uid] = namespace, size
        self._by_namespace[namespace] += size
        return None

    def drop(self, uid: str) -> None:
        """It is kept no more."""
        namespace, size = self._kept.pop(uid, ("", 0))
        self._by_namespace[namespace] -= size
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]

    def uids(self) -> set[str]:
        """Of all that are kept."""
        return set(self._kept)
