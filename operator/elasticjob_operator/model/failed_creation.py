"""The last failed attempt to create pods of one job: `policy.creation_backoff` makes it, the ledger keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedCreation:
    """It lasts until a batch succeeds."""

    message: str
    """The API server's own sentence, or why there was no answer."""
    attempts: int
    """Failures in a row."""
    retry_at_s: float
    """Monotonic clock."""
    invalid: bool = False
    """The template is at fault: it was refused before this life had any pod."""
