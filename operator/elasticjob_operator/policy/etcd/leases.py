"""Leases in etcd that nothing uses, found by comparing two checks.

An agent attaches its key to its lease at once. So a lease without a key at two checks is unused. Such leases do harm:
etcd counts them against no quota and keeps each in memory. It grants any client a lease of a hundred years.
"""

from dataclasses import dataclass, replace

CHECKS_PER_RECHECK = 20
"""A lease may lose its key later. After this number of checks the keys are read again."""


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """The results of the checks so far."""

    leases: frozenset[int] = frozenset()
    with_keys: frozenset[int] = frozenset()
    checks: int = 0


def suspects(known: LeaseHistory, leases: frozenset[int]) -> frozenset[int]:
    """Return the leases that existed at the previous check and are not known to have a key."""
    return (leases & known.leases) - known.with_keys


def after_check(known: LeaseHistory, leases: frozenset[int]) -> LeaseHistory:
    """Return the history after a check that found these leases."""
    checks = known.checks + 1
    with_keys = known.with_keys & leases if checks % CHECKS_PER_RECHECK else frozenset[int]()
    return replace(known, leases=leases, with_keys=with_keys, checks=checks)
