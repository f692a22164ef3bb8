"""The last failed attempt to create pods of a job; `creation_backoff` makes the record, the job state stores it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedCreation:
    """A failed attempt; the record lasts until a batch succeeds."""

    message: str
    """The API server's message, or why there was no answer."""
    attempts: int
    """Consecutive failures."""
    retry_at_s: float
    """Time of the next attempt, on the monotonic clock."""
    invalid: bool = False
    """Whether the template is at fault: it was rejected before the job had any pod since its start or resume."""
