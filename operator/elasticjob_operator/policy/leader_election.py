"""PURE: one candidate of an election by a Lease: what it has seen, whether it leads, what it does next.

As in client-go, a candidate never compares its clock with the times in the Lease. A Lease has expired when it has not
changed for its duration, by the monotonic clock of the candidate that watches it. A leader counts from the moment at
which it sent the last renewal that was confirmed, and stops `lease_duration_s - renew_deadline_s` before any other
candidate may take over. A request of its that is still under way then does no harm: see `txns`.
"""

from dataclasses import dataclass, replace
from enum import Enum

NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTiming:
    """The durations of an election, named as in client-go."""

    lease_duration_s: float = 4.0
    """A Lease that has not changed for so long may be taken."""
    renew_deadline_s: float = 3.0
    """A leader whose last confirmed renewal is older leads no more."""
    retry_period_s: float = 1.0
    """Between two renewals, and between two looks of a candidate that does not lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as last read: what decides, and nothing of its times."""

    holder: str
    duration_s: float
    version: str
    """Its resourceVersion: every renewal changes it."""


class Step(Enum):
    """What a candidate does next."""

    READ = "read"  # it has not read the Lease, or its copy may be out of date
    CREATE = "create"  # there is none
    ACQUIRE = "acquire"  # it is free, or has expired
    RENEW = "renew"  # it is ours
    WAIT = "wait"  # another candidate holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One process; moments are seconds of its monotonic clock."""

    identity: str
    timing: ElectionTiming
    lease: Lease | None = None
    lease_observed_s: float = NEVER
    """When `lease` was first seen as it is."""
    is_current: bool = False
    """`lease` (or that there is none) was read or written by the last request."""
    renewed_s: float = NEVER
    """When the last confirmed renewal was sent."""


def is_leader(candidate: Candidate, now_s: float) -> bool:
    """The candidate may act now."""
    return now_s < leads_until_s(candidate)


def leads_until_s(candidate: Candidate) -> float:
    """When its leadership ends unless a renewal is confirmed before."""
    return candidate.renewed_s + candidate.timing.renew_deadline_s


def start_attempt(candidate: Candidate, now_s: float) -> Candidate:
    """A leader renews what it has written last; every other candidate reads the Lease first."""
    return candidate if is_leader(candidate, now_s) else replace(candidate, is_current=False)


def next_step(candidate: Candidate, now_s: float) -> Step:
    """What the candidate does now that its turn has come."""
    lease = candidate.lease
    if not candidate.is_current:
        return Step.READ
    if lease is None:
        return Step.CREATE
    if lease.holder == candidate.identity:
        return Step.RENEW
    return Step.ACQUIRE if not lease.holder or now_s >= expires_s(candidate) else Step.WAIT


def expires_s(candidate: Candidate) -> float:
    """When the Lease has expired for this candidate; the holder's own duration counts."""
    lease = candidate.lease
    duration_s = lease.duration_s if lease is not None and lease.duration_s > 0 else candidate.timing.lease_duration_s
    return candidate.lease_observed_s + duration_s


def retry_in_s(candidate: Candidate, now_s: float) -> float:
    """How long the candidate rests until its next turn."""
    retry_s = candidate.timing.retry_period_s
    if is_leader(candidate, now_s):
        least_s = 0.0 if candidate.is_current else retry_s / 4  # of failures in a row
        rest_s = max(least_s, candidate.renewed_s + retry_s - now_s)
        return min(rest_s, leads_until_s(candidate) - now_s)
    expires_in_s = expires_s(candidate) - now_s
    return expires_in_s if 0 < expires_in_s < retry_s else retry_s


def is_uninterrupted(before: Candidate, after: Candidate) -> bool:
    """The leadership of `before` has gone on: its last renewal was sent while the one before still counted."""
    return after.renewed_s < leads_until_s(before)


def with_observed_lease(candidate: Candidate, lease: Lease | None, now_s: float) -> Candidate:
    """The Lease was read; None: there is none."""
    held = lease is not None and lease.holder == candidate.identity
    known = lease is not None and candidate.lease is not None and lease.version == candidate.lease.version
    return replace(
        candidate,
        lease=lease,
        lease_observed_s=candidate.lease_observed_s if known else now_s,
        is_current=True,
        renewed_s=candidate.renewed_s if held else NEVER,
    )


def with_written_lease(candidate: Candidate, lease: Lease, *, sent_s: float, now_s: float) -> Candidate:
    """The API server confirmed a write that was sent at `sent_s`; `lease` is what it has stored."""
    held = lease.holder == candidate.identity
    return replace(candidate, lease=lease, lease_observed_s=now_s, is_current=True, renewed_s=sent_s if held else NEVER)


def after_no_answer(candidate: Candidate) -> Candidate:
    """A request failed, or its answer was lost: the Lease may have changed. What is known of its age stays."""
    return replace(candidate, is_current=False)
