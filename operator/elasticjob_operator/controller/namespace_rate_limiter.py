"""A limit for what one namespace may cause in a period, so that no tenant fills a store that all share."""

from collections import deque
from collections.abc import Callable


class NamespaceRateLimiter:
    """Counts what namespaces have caused in the last period; `clock` is monotonic, in seconds."""

    def __init__(self, *, most: int, period_s: float, clock: Callable[[], float]) -> None:
        """Allow `most` of each namespace in this period."""
        self._most = most
        self._period_s = period_s
        self._clock = clock
        self._times_s: dict[str, deque[float]] = {}
        """Namespace → the times of what it has caused, oldest first; never empty."""

    def is_exhausted(self, namespace: str) -> bool:
        """Return whether this namespace has caused all that it may in the last period."""
        return self._count(namespace) >= self._most

    def record(self, namespace: str) -> None:
        """Count one for this namespace, and forget namespaces without any in the last period."""
        for each in list(self._times_s):
            self._count(each)
        self._times_s.setdefault(namespace, deque()).append(self._clock())

    def _count(self, namespace: str) -> int:
        times_s = self._times_s.get(namespace, deque())
        while times_s and times_s[0] <= self._clock() - self._period_s:
            times_s.popleft()
        if not times_s:
            self._times_s.pop(namespace, None)
        return len(times_s)
