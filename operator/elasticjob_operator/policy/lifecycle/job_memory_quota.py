"""PURE: which specs of jobs the operator keeps in its memory, so that no namespace takes what the others need.

A namespace may have as much as is left free by all: one that takes all it can leaves half of the memory, two leave a
third, and a namespace that comes later always finds some. A job that has begun may go on where a new one is refused,
up to three times as much. Half of the memory more is kept for jobs that have begun and find no room in that: those
that a new operator hears of last, and those whose specs grow a little.
"""

from collections import Counter
from dataclasses import dataclass, replace

STARTED_SHARE = 3
"""Times of what is left free that a namespace may have in jobs that have begun."""
MAX_GROWTH_BYTES = 64 << 10
"""Bytes by which a job that has begun may grow, whatever its namespace has."""
_NO_BYTES = 0


@dataclass(frozen=True, slots=True)
class Share:
    """What a namespace may have, and the whole, in bytes."""

    retained: int
    whole: int

    def rejection(self, namespace: str) -> str:
        """Why nothing more is kept of this namespace, and what to do about it."""
        return (
            f"is more than the operator keeps of namespace {namespace}, {self.retained >> 20} MiB of {self.whole >> 20}"
            ": delete jobs there, make their specs smaller, or give the operator more (--jobs-memory)"
        )


@dataclass(frozen=True, slots=True)
class _Reservation:
    """A job that was heard of, in bytes."""

    namespace: str
    size: int
    """What is kept of it; nothing if it was refused."""
    shared: int
    """How much of that is in the share of its namespace."""
    base: int
    """From where its growth counts."""


class JobMemoryQuota:
    """The memory for the specs of all jobs; by uid."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._reservations: dict[str, _Reservation] = {}
        self._by_namespace: Counter[str] = Counter()
        """Bytes in the share of each."""
        self._shared = self._extra = 0
        """Bytes of all in shares, and beside them."""

    @property
    def retained(self) -> int:
        """Bytes of all."""
        return self._shared + self._extra

    def reserve(self, uid: str, namespace: str, size: int, *, started: bool) -> Share | None:
        """Keep the spec of this job, in place of an older one. What its namespace may have, if there is no room."""
        before = self._reservations.get(uid)
        self.drop(uid)
        if (kept := self._fit(before, namespace, size, started=started)) is not None:
            self._store(uid, kept)
            return None
        self._store(uid, _Reservation(namespace, _NO_BYTES, _NO_BYTES, before.base if before else _NO_BYTES))
        return Share(self._by_namespace[namespace], self._whole)

    def refuse(self, uid: str, namespace: str) -> None:
        """It is too large to be kept, whatever room there is."""
        before = self._reservations.get(uid)
        self.drop(uid)
        self._store(uid, _Reservation(namespace, _NO_BYTES, _NO_BYTES, before.base if before else _NO_BYTES))

    def _fit(self, previous: _Reservation | None, namespace: str, size: int, *, started: bool) -> _Reservation | None:
        """As what the job is kept, which is counted nowhere now; None: there is no room."""
        if previous is not None and size <= previous.size:
            return replace(previous, size=size, shared=min(previous.shared, size))
        mine, free = self._by_namespace[namespace] + size, self._whole - self._shared - size
        if mine <= (STARTED_SHARE if started else 1) * free:
            return _Reservation(namespace, size, shared=size, base=size)
        if not started:
            return None
        if previous is None:  # this process is new: the one before it has let it begin
            return _Reservation(namespace, size, _NO_BYTES, size) if self._extra + size <= self._whole // 2 else None
        grown = self._extra + size - previous.shared
        return (
            replace(previous, size=size)
            if size <= previous.base + MAX_GROWTH_BYTES and grown <= self._whole // 4
            else None
        )

    def drop(self, uid: str) -> None:
        """It is kept no more, and forgotten."""
        if (known := self._reservations.pop(uid, None)) is not None:
            self._count(known, -1)

    def _store(self, uid: str, known: _Reservation) -> None:
        self._reservations[uid] = known
        self._count(known, 1)

    def _count(self, known: _Reservation, times: int) -> None:
        self._shared += times * known.shared
        self._extra += times * (known.size - known.shared)
        self._by_namespace[known.namespace] += times * known.shared
        if not self._by_namespace[known.namespace]:
            del self._by_namespace[known.namespace]

    def uids(self) -> set[str]:
        """Of all that were heard of."""
        return set(self._reservations)
