"""The backoff after a failed attempt to create pods, and the API server's message during it.

The backoff belongs to the job, not to a slot: a quota or a webhook rejects all pods of a job alike. It doubles with
each consecutive failure, and is at least the API server's Retry-After. It ends with the first batch that succeeds, or
when no pod is missing any more.
"""

from collections.abc import Iterable, Mapping

from elasticjob_operator.errors import ClusterError, InvalidObject
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.slot_pod import SlotPod

FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0


def after_failure(
    before: FailedCreation | None, error: ClusterError, monotonic_s: float, *, strict: bool = False
) -> FailedCreation:
    """Return the record after one more failure; `strict`: the request had strict field validation of the template."""
    attempts = before.attempts + 1 if before is not None else 1
    pause_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(attempts - 1, 30))
    again_at_s = monotonic_s + max(pause_s, error.retry_after_s)
    return FailedCreation(str(error), attempts, again_at_s, invalid=strict and isinstance(error, InvalidObject))


def first_error(errors: Iterable[BaseException]) -> ClusterError | None:
    """Return the first error that comes from the API server."""
    return next((error for error in errors if isinstance(error, ClusterError)), None)


def is_paused(record: FailedCreation | None, monotonic_s: float) -> bool:
    """Return whether the creation of pods is paused now."""
    return record is not None and monotonic_s < record.retry_at_s


def while_pods_missing(record: FailedCreation | None, owners: Mapping[int, SlotPod]) -> FailedCreation | None:
    """Return the record, or None if every slot has its pod."""
    return record if any(owner.pod is None for owner in owners.values()) else None
