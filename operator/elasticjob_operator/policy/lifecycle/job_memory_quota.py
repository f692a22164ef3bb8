"""The quota of operator memory for job specs, so that no namespace takes what the others need.

A namespace may have as much as all namespaces together leave free. So one namespace can take half of the memory, two
leave a third, and a new namespace always finds some. A job that has started is kept where a new one is refused, up to
three times as much. An extra half of the memory is reserved for started jobs that do not fit otherwise. These are the
jobs that a new operator lists last, and jobs whose specs grow a little.
"""

from collections import Counter
from dataclasses import dataclass, replace

STARTED_SHARE = 3
"""Factor of the free memory that a namespace may use for jobs that have started."""
MAX_GROWTH_BYTES = 64 << 10
"""Bytes by which a started job may grow, whatever its namespace uses."""
_NO_BYTES = 0


@dataclass(frozen=True, slots=True)
class Share:
    """The memory that a namespace uses and the total, in bytes."""

    retained: int
    whole: int

    def rejection(self, namespace: str) -> str:
        """Return why no more of this namespace is kept, and what the user can do."""
        return (
            f"exceeds the operator's memory for namespace {namespace}, whose jobs use {self.retained >> 20} of "
            f"{self.whole >> 20} MiB: delete jobs there, make their specs smaller, or raise --jobs-memory"
        )


@dataclass(frozen=True, slots=True)
class _Reservation:
    """The memory of one known job, in bytes."""

    namespace: str
    size: int
    """Size of the kept spec; 0 if it was refused."""
    shared: int
    """The part of it that counts for the namespace's share."""
    base: int
    """The size from which its growth is measured."""


class JobMemoryQuota:
    """The memory for the specs of all jobs, by uid."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._reservations: dict[str, _Reservation] = {}
        self._by_namespace: Counter[str] = Counter()
        """Bytes in the share of each namespace."""
        self._shared = self._extra = 0
        """Bytes of all jobs within shares, and in the extra memory."""

    @property
    def retained(self) -> int:
        """Bytes of all jobs."""
        return self._shared + self._extra

    def reserve(self, uid: str, namespace: str, size: int, *, started: bool) -> Share | None:
        """Reserve memory for the spec of this job, instead of that for its older spec.

        Return the share of its namespace if there is not enough memory, else None.
        """
        before = self._reservations.get(uid)
        self.drop(uid)
        if (reservation := self._fit(before, namespace, size, started=started)) is not None:
            self._store(uid, reservation)
            return None
        self._store(uid, _Reservation(namespace, _NO_BYTES, _NO_BYTES, before.base if before else _NO_BYTES))
        return Share(self._by_namespace[namespace], self._whole)

    def refuse(self, uid: str, namespace: str) -> None:
        """Record that the spec is too large to be kept, however much memory is free."""
        before = self._reservations.get(uid)
        self.drop(uid)
        self._store(uid, _Reservation(namespace, _NO_BYTES, _NO_BYTES, before.base if before else _NO_BYTES))

    def _fit(self, previous: _Reservation | None, namespace: str, size: int, *, started: bool) -> _Reservation | None:
        """Return the reservation for a job without one; None if there is not enough memory."""
        if previous is not None and size <= previous.size:
            return replace(previous, size=size, shared=min(previous.shared, size))
        used, free = self._by_namespace[namespace] + size, self._whole - self._shared - size
        if used <= (STARTED_SHARE if started else 1) * free:
            return _Reservation(namespace, size, shared=size, base=size)
        if not started:
            return None
        if previous is None:  # this process is new: its predecessor let the job start
            return _Reservation(namespace, size, _NO_BYTES, size) if self._extra + size <= self._whole // 2 else None
        grown = self._extra + size - previous.shared
        return (
            replace(previous, size=size)
            if size <= previous.base + MAX_GROWTH_BYTES and grown <= self._whole // 4
            else None
        )

    def drop(self, uid: str) -> None:
        """Remove the job and its reservation."""
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
        """Return the uids of all known jobs."""
        return set(self._reservations)
