"""Which kept import profiles are dropped, so that they never take much of etcd.

The namespace with the most profiles loses its oldest one first. So one namespace cannot displace all others.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

MOST_OF_NAMESPACE, MOST = 8, 64
"""Profiles of one namespace, and of all. One has 128 KiB at most."""


@dataclass(frozen=True, slots=True)
class KeptProfile:
    """One kept profile: its key, namespace, and revision in etcd."""

    key: str
    namespace: str
    revision: int


def profiles_to_drop(kept: Iterable[KeptProfile]) -> list[str]:
    """Return the keys to delete, so that no more than the limits are left."""
    oldest_first = sorted(kept, key=lambda each: each.revision)
    left = Counter(each.namespace for each in oldest_first)
    dropped = []
    while left and (left.total() > MOST or max(left.values()) > MOST_OF_NAMESPACE):
        [(namespace, _)] = left.most_common(1)
        oldest = next(each for each in oldest_first if each.namespace == namespace)
        oldest_first.remove(oldest)
        left[namespace] -= 1
        dropped.append(oldest.key)
    return dropped
