"""PURE: which leases of etcd are nobody's, from one look to the next.

An agent ties its key to its lease within a moment. A lease that has no key at two looks serves nothing: etcd counts
leases against no quota, keeps each in memory, and lets anybody ask for one that ends in a hundred years.
"""

from dataclasses import dataclass, replace

CHECKS_PER_RECHECK = 20
"""A lease that had a key once may have lost it: after so many looks the keys are read again."""


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """What the looks before have found."""

    leases: frozenset[int] = frozenset()
    with_keys: frozenset[int] = frozenset()
    checks: int = 0


def suspects(known: LeaseHistory, leases: frozenset[int]) -> frozenset[int]:
    """Leases that were there at the look before and are not known to have a key."""
    return (leases & known.leases) - known.with_keys


def after_check(known: LeaseHistory, leases: frozenset[int]) -> LeaseHistory:
    """What is known when all of these were seen."""
    looks = known.checks + 1
    with_keys = known.with_keys & leases if looks % CHECKS_PER_RECHECK else frozenset[int]()
    return replace(known, leases=leases, with_keys=with_keys, checks=looks)
