"""One candidate in an election by a Lease: what it has observed, whether it leads, and its next step.

As in client-go, a candidate never compares its clock with the times in the Lease. A Lease has expired if it has not
changed for its duration, by the monotonic clock of the candidate that observes it. Leadership counts from the time at
which the last confirmed renewal was sent. It ends `lease_duration_s - renew_deadline_s` before another candidate may
take over. A request of the former leader that is still in flight then does no harm: see `controller/transactions.py`.
"""

from dataclasses import dataclass, replace
from enum import Enum

from elasticjob_operator.model.lease import Lease

NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTiming:
    """The durations of an election, named as in client-go."""

    lease_duration_s: float = 4.0
    """A Lease that has not changed for this time may be acquired."""
    renew_deadline_s: float = 3.0
    """A leader stops this long after it sent its last confirmed renewal."""
    retry_period_s: float = 1.0
    """Between two renewals, and between two reads by a candidate that does not lead."""


class ElectionStep(Enum):
    """The next step of a candidate."""

    READ = "read"  # it has not read the Lease, or its copy may be out of date
    CREATE = "create"  # there is none
    ACQUIRE = "acquire"  # it is free, or has expired
    RENEW = "renew"  # it is ours
    WAIT = "wait"  # another candidate holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One process; times are seconds of its monotonic clock."""

    identity: str
    timing: ElectionTiming
    lease: Lease | None = None
    lease_observed_s: float = NEVER
    """The time at which `lease` was first observed in this version."""
    is_current: bool = False
    """Whether the last request read or wrote `lease`, or found that there is none."""
    renewed_s: float = NEVER
    """The time at which the last confirmed renewal was sent."""


def is_leader(candidate: Candidate, now_s: float) -> bool:
    """Return whether the candidate may act now."""
    return now_s < leads_until_s(candidate)


def leads_until_s(candidate: Candidate) -> float:
    """Return when leadership ends unless a renewal is confirmed before."""
    return candidate.renewed_s + candidate.timing.renew_deadline_s


def start_attempt(candidate: Candidate, now_s: float) -> Candidate:
    """Return the candidate at the start of an attempt: a leader renews its Lease, others must read it first."""
    return candidate if is_leader(candidate, now_s) else replace(candidate, is_current=False)


def next_step(candidate: Candidate, now_s: float) -> ElectionStep:
    """Return the next step of a candidate whose attempt has started."""
    lease = candidate.lease
    if not candidate.is_current:
        return ElectionStep.READ
    if lease is None:
        return ElectionStep.CREATE
    if lease.holder == candidate.identity:
        return ElectionStep.RENEW
    return ElectionStep.ACQUIRE if not lease.holder or now_s >= expires_s(candidate) else ElectionStep.WAIT


def expires_s(candidate: Candidate) -> float:
    """Return when the Lease expires for this candidate; the duration in the Lease is used, if it has one."""
    lease = candidate.lease
    duration_s = lease.duration_s if lease is not None and lease.duration_s > 0 else candidate.timing.lease_duration_s
    return candidate.lease_observed_s + duration_s


def retry_in_s(candidate: Candidate, now_s: float) -> float:
    """Return the seconds until the next attempt."""
    retry_s = candidate.timing.retry_period_s
    if is_leader(candidate, now_s):
        least_s = 0.0 if candidate.is_current else retry_s / 4  # of failures in a row
        rest_s = max(least_s, candidate.renewed_s + retry_s - now_s)
        return min(rest_s, leads_until_s(candidate) - now_s)
    expires_in_s = expires_s(candidate) - now_s
    return expires_in_s if 0 < expires_in_s < retry_s else retry_s


def is_uninterrupted(before: Candidate, after: Candidate) -> bool:
    """Return whether the leadership of `before` continues: the last renewal was sent before the one before expired."""
    return after.renewed_s < leads_until_s(before)


def with_observed_lease(candidate: Candidate, lease: Lease | None, now_s: float) -> Candidate:
    """Return the candidate after it has read the Lease; None: there is no Lease."""
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
    """Return the candidate after the API server has confirmed the write sent at `sent_s` and has stored `lease`."""
    held = lease.holder == candidate.identity
    return replace(candidate, lease=lease, lease_observed_s=now_s, is_current=True, renewed_s=sent_s if held else NEVER)


def after_no_answer(candidate: Candidate) -> Candidate:
    """Return the candidate after a failed or unanswered request: the Lease may have changed, its age is kept."""
    return replace(candidate, is_current=False)
